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
  } catch (const std::invalid_argument& wrong) {
    const std::string message = wrong.what();
    const bool is_missing = message.find("this CPU does not have") != std::string::npos;
    std::printf("%s: %s\n", is_missing ? "not run" : "POSPROOF_ISA", message.c_str());
    return is_missing ? kNotRun : 2;
  }
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  return RUN_ALL_TESTS();
}
