#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "conformance/builtin.hpp"
#include "conformance/laws.hpp"
#include "fixtures/core/files.hpp"
#include "properties/core/law.hpp"

namespace posproof::properties {
namespace {

constexpr std::uint64_t kSeed = 20260101;
constexpr int kExperiments = 100;

std::filesystem::path program;

std::uint64_t seed() {
  const char* given = std::getenv("POSPROOF_SEED");
  return given ? std::strtoull(given, nullptr, 10) : kSeed;
}

struct Candidate {
  std::string label;  ///< in the test's name: a colon separates patterns of --gtest_filter
  std::string builtin;
  Grade grade;
  Subject::Arithmetic arithmetic;
};

const std::vector<Candidate> kCandidates{
    {"formulas", "reference", Grade::P0, Subject::Arithmetic::formulas},
    {"reference", "reference", Grade::P0, Subject::Arithmetic::answers},
    {"plain", "plain", Grade::P2, Subject::Arithmetic::answers},
    {"plain64", "plain64", Grade::P1, Subject::Arithmetic::answers},
};

/// The questions in order, as a file that `posproof verify --case FILE` takes.
std::string stored(const Law& law, const Candidate& candidate,
                   const std::vector<Request>& counterexample) {
  std::string stem = law.name + "." + candidate.label;
  std::replace(stem.begin(), stem.end(), '/', '.');
  const std::filesystem::path folder = program.parent_path() / "counterexamples";
  std::filesystem::create_directories(folder);
  const auto file = folder / (stem + ".json");
  const LawResult result{law.name, Verdict::fail, 0, "", counterexample};
  write_aside(file, counterexample_json(result).dump(1) + "\n");
  return file.string();
}

class LawTest : public testing::Test {
 public:
  LawTest(const Law& law, const Candidate& candidate) : law_(law), candidate_(candidate) {}

  void TestBody() override {
    const auto implementation = open_builtin(candidate_.builtin);
    implementation->start(std::chrono::seconds(10));
    Subject subject(*implementation, candidate_.grade, candidate_.arithmetic);
    const Finding finding = check(law_, subject, {seed(), kExperiments});
    if (finding.verdict == Finding::Verdict::pass) return;
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    FAIL() << law_.name << " does not hold for builtin:" << candidate_.builtin << "\n"
           << finding.message
           << "\nthe questions, as cases: " << stored(law_, candidate_, finding.counterexample)
           << "\nseed " << seed() << "; again: POSPROOF_SEED=" << seed() << " " << program.string()
           << " --gtest_filter='" << test.test_suite_name() << "." << test.name() << "'";
  }

 private:
  Law law_;
  Candidate candidate_;
};

void register_tests() {
  for (const Law& law : all_laws()) {
    const std::size_t slash = law.name.find('/');
    for (const Candidate& candidate : kCandidates)
      testing::RegisterTest(
          law.name.substr(0, slash).c_str(),
          (law.name.substr(slash + 1) + "/" + candidate.label).c_str(), nullptr, nullptr, __FILE__,
          __LINE__, [law, candidate]() -> testing::Test* { return new LawTest(law, candidate); });
  }
}

}  // namespace
}  // namespace posproof::properties

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  posproof::properties::program = std::filesystem::absolute(argv[0]);
  // RapidCheck announces the seed of its configuration, which is not the one in use unless it is
  // told. setenv does not overwrite a person's own settings.
  setenv("RC_PARAMS", ("seed=" + std::to_string(posproof::properties::seed())).c_str(), 0);
  posproof::properties::register_tests();
  return RUN_ALL_TESTS();
}
