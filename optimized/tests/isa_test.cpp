#include "optimized/core/isa.hpp"

#include <cstdlib>

#include "optimized/tests/shared.hpp"

namespace posproof::optimized::tests {
namespace {

TEST(Isas, are_taken_by_their_names) {
  EXPECT_EQ(name(Isa::scalar), "scalar");
  EXPECT_EQ(name(Isa::avx2), "avx2");
  EXPECT_EQ(name(Isa::avx512), "avx512");
  for (const Isa isa : available_isas()) EXPECT_EQ(isa_from(name(isa)), isa);
  EXPECT_EQ(available_isas().front(), Isa::scalar);
  EXPECT_EQ(thrown<std::invalid_argument>([] { isa_from("sse9"); }),
            "isa: found 'sse9', allowed are scalar, avx2, avx512");
  EXPECT_EQ(thrown<std::invalid_argument>([] { isa_from(""); }),
            "isa: found '', allowed are scalar, avx2, avx512");
}

TEST(Isas, the_default_is_the_one_that_the_environment_names) {
  const char* forced = std::getenv("POSPROOF_ISA");
  if (forced == nullptr) GTEST_SKIP() << "POSPROOF_ISA is not set";
  EXPECT_EQ(name(default_isa()), forced);
  EXPECT_EQ(name(forced_isa()), forced);
}

}  // namespace
}  // namespace posproof::optimized::tests
