#include <cstdio>
#include <cstdlib>

#include "optimized/tests/shared.hpp"

namespace posproof::optimized::tests {

Isa forced_isa() {
  const char* forced = std::getenv("POSPROOF_ISA");
  return forced != nullptr ? isa_from(forced) : available_isas().back();
}

}  // namespace posproof::optimized::tests

/// ctest counts this exit status as not run.
constexpr int kNotRun = 77;

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    posproof::optimized::tests::forced_isa();
  } catch (const std::invalid_argument& missing) {
    std::printf("not run: %s\n", missing.what());
    return kNotRun;
  }
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  return RUN_ALL_TESTS();
}
