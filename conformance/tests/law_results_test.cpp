#include <gtest/gtest.h>
#include <unistd.h>

#include "conformance/laws.hpp"
#include "conformance/tests/bent.hpp"
#include "fixtures/core/files.hpp"
#include "fixtures/core/fixture_file.hpp"

namespace posproof {
namespace {

using Kind = Answer::Kind;

const char* const kFirstPair = "rope/the_first_pair_turns_by_one_radian_per_position";
const char* const kNorm = "rope/rotation_preserves_the_norm_of_every_pair";
const char* const kLayouts = "rope/layouts_are_equal_up_to_the_lane_permutation";

Report tried(Implementation& implementation, std::vector<std::string> laws,
             std::vector<Waiver> waivers = {}) {
  VerifyOptions options;
  options.laws = {std::move(laws), 50, 7};
  options.waivers = std::move(waivers);
  return judged(implementation, {}, options);
}

/// Turns the other way.
Bent::Bend backwards() {
  return [](Request request, const Answer& answer) {
    if (request.operation != "rope.apply") return answer;
    request.parameters["inverse"] = !request.parameters.value("inverse", false);
    return open_builtin("plain64")->run(request, std::chrono::seconds(1));
  };
}

TEST(Laws, are_counted_and_a_right_implementation_keeps_all_of_them) {
  Bent right([](const Request&, Answer answer) { return answer; });
  const Report report = tried(right, laws_about({"learned", "nope"}, {}));
  EXPECT_GT(report.laws.size(), 5u);
  for (const LawResult& law : report.laws) {
    EXPECT_EQ(law.verdict, Verdict::pass) << law.law << law.message;
    EXPECT_GE(law.tests, 50) << law.law;
  }
  EXPECT_TRUE(report.good());
}

TEST(Laws, that_fail_make_the_run_fail_and_name_the_command_that_replays_them) {
  Bent bent(backwards());
  const Report report = tried(bent, {kFirstPair, kNorm});
  ASSERT_EQ(report.laws.size(), 2u);
  EXPECT_EQ(report.laws[0].law, kNorm);  // a rotation is one either way
  EXPECT_EQ(report.laws[0].verdict, Verdict::pass) << report.laws[0].message;
  EXPECT_EQ(report.laws[1].verdict, Verdict::fail);
  EXPECT_FALSE(report.good());
  EXPECT_EQ(report.reproduce(report.laws[1]),
            std::string("posproof verify builtin:bent --laws 50 --seed 7 --case ") + kFirstPair);
  EXPECT_NE(report_text(report).find(report.reproduce(report.laws[1])), std::string::npos);

  const nlohmann::json told = report_json(report)["laws"];
  EXPECT_EQ(told[0]["counterexample"], nullptr);
  EXPECT_EQ(told[1]["verdict"], "fail");
  EXPECT_EQ(told[1]["counterexample"][0]["operation"], "rope.apply");
  const std::string junit = report_junit(report);
  EXPECT_NE(junit.find("<testsuite name=\"laws\" tests=\"2\" failures=\"1\""), std::string::npos)
      << junit;
}

/// The file holds the questions in order, and a wrong answer among them is a wrong answer still.
TEST(Laws, leave_their_counterexample_as_a_file_of_cases) {
  Bent bent(backwards());
  const Report report = tried(bent, {kFirstPair});
  const auto folder =
      std::filesystem::temp_directory_path() / ("posproof_law_results_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  write_report(report, {}, folder);
  const auto file =
      folder / "counterexamples" / "rope.the_first_pair_turns_by_one_radian_per_position.json";
  const std::vector<Case> cases = read_cases(file);
  ASSERT_EQ(cases.size(), report.laws[0].counterexample.size());
  EXPECT_GT(judged(bent, cases).count(Verdict::fail), 0u);
  Bent right([](const Request&, Answer answer) { return answer; });
  EXPECT_TRUE(judged(right, cases).good());

  write_report(tried(right, {kFirstPair}), {}, folder);
  EXPECT_FALSE(std::filesystem::exists(file));
  std::filesystem::remove_all(folder);
}

TEST(Laws, give_the_same_counterexample_for_the_same_seed) {
  Bent bent(backwards());
  EXPECT_EQ(report_json(tried(bent, {kFirstPair}))["laws"],
            report_json(tried(bent, {kFirstPair}))["laws"]);
}

TEST(Laws, about_what_is_not_declared_are_unsupported) {
  Bent narrow([](const Request&, Answer answer) { return answer; });
  narrow.mutable_description().operations = {{"rope.apply", {{"f32"}, {{"layout", {"half"}}}}}};
  const Report report = tried(narrow, {kNorm, kLayouts, "alibi/diagonal_is_zero"});
  ASSERT_EQ(report.laws.size(), 3u);
  EXPECT_EQ(report.laws[0].verdict, Verdict::pass) << report.laws[0].message;
  EXPECT_EQ(report.laws[1].verdict, Verdict::unsupported) << report.laws[1].message;
  EXPECT_EQ(report.laws[2].verdict, Verdict::unsupported);
  EXPECT_TRUE(report.good());
  EXPECT_FALSE(tried(narrow, {kLayouts}).good()) << "nothing ran";
}

TEST(Laws, end_with_a_crash_and_the_next_is_tried) {
  for (const auto& [kind, verdict] : {std::pair{Kind::crash, Verdict::crash},
                                      {Kind::timeout, Verdict::timeout},
                                      {Kind::broken, Verdict::error}}) {
    int asked = 0;
    Bent bent([&asked, kind = kind](const Request&, const Answer&) {
      ++asked;
      return Answer{kind, {}, "why"};
    });
    const Report report = tried(bent, {kFirstPair, kNorm});
    EXPECT_EQ(asked, 2);
    for (const LawResult& law : report.laws) EXPECT_EQ(law.verdict, verdict);
    EXPECT_EQ(report.laws[0].message, "why");
  }
}

TEST(Laws, can_be_waived_by_name_where_they_are_tried) {
  Bent bent(backwards());
  const Waiver known{kFirstPair, "", "counts clockwise", ""};
  Report report = tried(bent, {kFirstPair}, {known});
  EXPECT_EQ(report.laws[0].verdict, Verdict::waived);
  EXPECT_TRUE(report.good());
  EXPECT_TRUE(tried(bent, {kNorm}, {known}).good()) << "that law was not tried";
  EXPECT_TRUE(tried(bent, {kNorm}, {{kNorm, "", "not shown by these inputs", ""}}).good());
  EXPECT_EQ(tried(bent, {kNorm}, {{"rope/no_such_law", "", "", ""}}).unmatched_waivers.size(), 1u);
  Bent right([](const Request&, Answer answer) { return answer; });
  VerifyOptions without;
  without.waivers = {known};
  EXPECT_TRUE(judged(right, {rotation()}, without).good()) << "no law was tried";
}

TEST(Laws, are_selected_by_operation_and_scheme) {
  for (const std::string& law : laws_about({}, {"rope.rotate"}))
    EXPECT_TRUE(law.rfind("rope.rotate/", 0) == 0 ||
                law == "rope/given_quarter_turns_move_lanes_exactly")
        << law;
  EXPECT_GT(laws_about({}, {"rope.rotate"}).size(), 5u);
  EXPECT_GT(law_names().size(), 140u);
}

}  // namespace
}  // namespace posproof
