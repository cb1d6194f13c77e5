#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"

namespace posproof::properties {
namespace {

using Verdict = Finding::Verdict;

/// Answers as a test says.
class Scripted : public Implementation {
 public:
  explicit Scripted(std::function<Answer(const Request&)> answer) : answer_(std::move(answer)) {
    description_.operations["learned.embed"] = {};
  }
  Answer start(std::chrono::milliseconds) override { return {Answer::Kind::outputs, {}, ""}; }
  const Description& description() const override { return description_; }
  Description& description() { return description_; }
  Answer run(const Request& request, std::chrono::milliseconds) override {
    ++asked;
    return answer_(request);
  }

  int asked = 0;

 private:
  std::function<Answer(const Request&)> answer_;
  Description description_;
};

Answer right(const Request& request) {
  const Tensor &table = request.inputs.at("table"), &at = request.inputs.at("positions");
  Tensor rows(table.dtype(), {at.size(), table.shape()[1]});
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows.set(i, table.value(static_cast<std::size_t>(at.integer(i / table.shape()[1])) *
                                table.shape()[1] +
                            i % table.shape()[1]));
  return {Answer::Kind::outputs, {{"rows", rows}}, ""};
}

/// Reads row `position` of eight.
double read(Subject& subject, std::int64_t position) {
  Tensor table(subject.drawn_dtype(), {8, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  return subject
      .measure("learned.embed", nlohmann::json::object(),
               {{"table", table}, {"positions", integers({position})}})
      .at("rows")
      .got.value(0);
}

const Law kLaw{"meta/rows",
               {"learned.embed"},
               [](Subject& subject) {
                 const std::int64_t at = *between(0, 7);
                 RC_ASSERT(read(subject, at) == static_cast<double>(at));
                 RC_CLASSIFY(at == 7, "last");
               },
               {"last"}};

Finding checked(Scripted& scripted, const Law& law = kLaw, Thoroughness thoroughness = {}) {
  Subject subject(scripted, std::nullopt);
  return check(law, subject, thoroughness);
}

TEST(Check, passes_what_is_right_after_as_many_experiments) {
  Scripted scripted(right);
  const Finding finding = checked(scripted, kLaw, {.experiments = 40});
  EXPECT_EQ(finding.verdict, Verdict::pass) << finding.message;
  EXPECT_GE(finding.tests, 40);
  EXPECT_EQ(scripted.asked, finding.tests);
}

TEST(Check, shrinks_to_the_smallest_question_that_fails) {
  Scripted scripted([](const Request& request) {
    Answer answer = right(request);
    if (request.inputs.at("positions").integer(0) >= 3) answer.outputs.at("rows").set(0, 9);
    return answer;
  });
  const Finding finding = checked(scripted);
  EXPECT_EQ(finding.verdict, Verdict::fail);
  ASSERT_EQ(finding.counterexample.size(), 1u);
  EXPECT_EQ(finding.counterexample[0].inputs.at("positions").integer(0), 3);
  EXPECT_NE(finding.message.find("learned.embed {} positions int64[1]{3} table f64[8,1]{0, 1, 2"),
            std::string::npos)
      << finding.message;
}

TEST(Check, tells_what_is_wrong_and_no_folder_of_the_build) {
  Scripted scripted([](const Request& request) {
    Answer answer = right(request);
    answer.outputs.at("rows").set(0, 9);
    return answer;
  });
  EXPECT_EQ(checked(scripted).message.rfind("law_test.cpp:", 0), 0u) << checked(scripted).message;
  const Law failing{"meta/failing", {"learned.embed"}, [](Subject&) { RC_FAIL("it is wrong"); }};
  EXPECT_EQ(checked(scripted, failing).message.rfind("it is wrong\nafter 0", 0), 0u);
}

TEST(Check, draws_the_same_from_the_same_seed) {
  const auto first_failure = [](std::uint64_t seed) {
    Scripted scripted([](const Request& request) {
      Answer answer = right(request);
      if (request.inputs.at("positions").integer(0) == 5) answer.outputs.at("rows").set(0, 9);
      return answer;
    });
    return checked(scripted, kLaw, {.seed = seed, .shrink = false}).tests;
  };
  EXPECT_EQ(first_failure(1), first_failure(1));
  std::set<int> different;
  for (std::uint64_t seed = 0; seed < 20; ++seed) different.insert(first_failure(seed));
  EXPECT_GT(different.size(), 3u);
}

TEST(Check, fails_a_law_that_never_meets_its_class) {
  Scripted scripted(right);
  Law law = kLaw;
  law.must_reach = {"ninth"};
  const Finding finding = checked(scripted, law);
  EXPECT_EQ(finding.verdict, Verdict::untested);
  EXPECT_EQ(finding.message.rfind("never reached: ninth, in ", 0), 0u) << finding.message;
}

TEST(Check, draws_on_until_a_rare_class_is_met) {
  Scripted scripted(right);
  const Finding finding = checked(scripted, kLaw, {.experiments = 2});
  EXPECT_EQ(finding.verdict, Verdict::pass) << finding.message;
  EXPECT_GE(finding.tests, 2);
}

TEST(Check, gives_up_what_is_excluded_and_fails_what_excludes_itself) {
  Scripted none([](const Request&) { return Answer{Answer::Kind::unsupported, {}, "not here"}; });
  EXPECT_EQ(checked(none).verdict, Verdict::unsupported);
  Scripted scripted(right);
  const Law impossible{"meta/impossible", {"learned.embed"}, [](Subject&) { RC_PRE(false); }};
  EXPECT_EQ(checked(scripted, impossible).verdict, Verdict::fail);
  const Law elsewhere{"meta/elsewhere", {"rope.apply"}, [](Subject&) {}};
  EXPECT_EQ(checked(scripted, elsewhere).verdict, Verdict::unsupported);
}

TEST(Check, asks_only_for_declared_types) {
  Scripted scripted([](const Request& request) {
    EXPECT_EQ(request.inputs.at("table").dtype(), Dtype::f16);
    return right(request);
  });
  scripted.description().operations["learned.embed"].dtypes = {"f16"};
  EXPECT_EQ(checked(scripted).verdict, Verdict::pass);
}

TEST(Check, ends_with_a_crash_at_once) {
  Scripted scripted([](const Request&) { return Answer{Answer::Kind::crash, {}, "signal 11"}; });
  const Finding finding = checked(scripted);
  EXPECT_EQ(finding.verdict, Verdict::crash);
  EXPECT_EQ(finding.message, "signal 11");
  EXPECT_EQ(finding.counterexample.size(), 1u);
  EXPECT_EQ(scripted.asked, 1);
}

TEST(Check, stops_asking_an_operation_that_is_silent) {
  Scripted scripted([](const Request&) { return Answer{Answer::Kind::timeout, {}, "silent"}; });
  Subject subject(scripted, std::nullopt);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(check(kLaw, subject, {}).verdict, Verdict::timeout);
  EXPECT_EQ(scripted.asked, 3);
}

TEST(Check, calls_an_answer_against_the_protocol_an_error) {
  Scripted scripted([](const Request&) { return Answer{Answer::Kind::broken, {}, "no JSON"}; });
  EXPECT_EQ(checked(scripted).verdict, Verdict::error);
}

TEST(Check, fails_a_refusal_a_missing_output_and_another_shape_or_type) {
  for (const Answer& answer :
       {Answer{Answer::Kind::refused, {}, "no"}, Answer{Answer::Kind::error, {}, "oh"},
        Answer{Answer::Kind::outputs, {}, ""},
        Answer{Answer::Kind::outputs, {{"rows", Tensor(Dtype::f64, {2, 1})}}, ""},
        Answer{Answer::Kind::outputs, {{"rows", Tensor::integers({1, 1}, {0})}}, ""}}) {
    Scripted scripted([&answer](const Request&) { return answer; });
    EXPECT_EQ(checked(scripted).verdict, Verdict::fail);
  }
}

TEST(Ranges, meet_where_one_number_can_be_in_both) {
  EXPECT_TRUE(meet(range_around(1, 0), range_around(1, 0)));
  EXPECT_TRUE(meet(range_around(1, 0.5), range_around(2, 0.5)));
  EXPECT_FALSE(meet(range_around(1, 0.5), range_around(2, 0.4999)));
  EXPECT_FALSE(meet(range_around(std::nan(""), 1), range_around(0, 1)));
  EXPECT_FALSE(meet(range_around(0, std::nan("")), range_around(0, 1)));
  EXPECT_TRUE(certainly_less(range_around(1, 0.25), range_around(2, 0.25)));
  EXPECT_FALSE(certainly_less(range_around(1, 0.5), range_around(2, 0.5)));
  EXPECT_EQ(radius(range_around(3, 0.25)), 0.25);
}

TEST(Ranges, enclose_what_was_computed_with_them) {
  const Range product = range_around(3, 0x1p-20) * range_around(-7, 0x1p-20);
  for (double a : {-1, 1})
    for (double b : {-1, 1})
      EXPECT_TRUE(meet(product, Range(3 + a * 0x1p-20) * Range(-7 + b * 0x1p-20)));
  EXPECT_FALSE(meet(product, Range(-21.0001)));
}

}  // namespace
}  // namespace posproof::properties
