#include <gtest/gtest.h>

#include <cmath>

#include "conformance/tests/bent.hpp"
#include "reference/core/registry.hpp"

namespace posproof {
namespace {

using nlohmann::json;

TEST(Verdicts, of_a_right_implementation_are_pass_and_refused) {
  Bent right([](const Request&, Answer answer) { return answer; });
  const Report report = judged(right, {rotation(), odd_rotary_dim()});
  EXPECT_EQ(report.results[0].verdict, Verdict::pass);
  EXPECT_EQ(report.results[0].grade, Grade::P0);
  EXPECT_EQ(report.results[1].verdict, Verdict::refused);
  EXPECT_TRUE(report.good());
  EXPECT_TRUE(report.diagnosis.empty());
}

TEST(Verdicts, follow_what_came_back) {
  struct Row {
    Answer::Kind kind;
    Verdict on_a_case, on_a_refusal;
  };
  for (const Row& row : {Row{Answer::Kind::unsupported, Verdict::unsupported, Verdict::unsupported},
                         Row{Answer::Kind::refused, Verdict::fail, Verdict::refused},
                         Row{Answer::Kind::error, Verdict::error, Verdict::refused},
                         Row{Answer::Kind::broken, Verdict::error, Verdict::error},
                         Row{Answer::Kind::crash, Verdict::crash, Verdict::crash},
                         Row{Answer::Kind::timeout, Verdict::timeout, Verdict::timeout}}) {
    Bent bent(answering(row.kind));
    const Report report = judged(bent, {rotation(), odd_rotary_dim()});
    EXPECT_EQ(report.results[0].verdict, row.on_a_case);
    EXPECT_EQ(report.results[1].verdict, row.on_a_refusal);
    EXPECT_FALSE(report.good());
  }
}

TEST(Verdicts, outputs_where_it_must_refuse_are_a_fail) {
  Bent bent([](const Request& request, Answer) {
    return Answer{Answer::Kind::outputs, {{"y", request.inputs.at("x")}}, ""};
  });
  EXPECT_EQ(judged(bent, {odd_rotary_dim()}).results[0].verdict, Verdict::fail);
}

TEST(Verdicts, wrong_names_shapes_and_types_are_errors_that_say_so) {
  const auto verdict_of = [](const Bent::Bend& bend) {
    Bent bent(bend);
    const Result result = judged(bent, {rotation()}).results[0];
    EXPECT_EQ(result.verdict, Verdict::error);
    return result.message;
  };
  EXPECT_EQ(verdict_of([](const Request&, Answer answer) {
              answer.outputs["z"] = answer.outputs["y"];
              answer.outputs.erase("y");
              return answer;
            }),
            "output y is missing");
  EXPECT_EQ(verdict_of([](const Request&, Answer answer) {
              answer.outputs["y"] = answer.outputs["y"].slice(0);
              return answer;
            }),
            "output y has shape [2,8], expected [4,2,8]");
  EXPECT_EQ(verdict_of([](const Request&, Answer answer) {
              answer.outputs["y"] = answer.outputs["y"].as(Dtype::f64);
              return answer;
            }),
            "output y is f64, expected f32");
  EXPECT_EQ(verdict_of([](const Request&, Answer answer) {
              answer.outputs["more"] = answer.outputs["y"];
              return answer;
            }),
            "unknown output more");
}

TEST(Verdicts, one_wrong_element_and_one_nan_are_fails_that_name_it) {
  for (double wrong : {0.5, std::nan("")}) {
    Bent bent([wrong](const Request&, Answer answer) {
      answer.outputs["y"].set(37, wrong);
      return answer;
    });
    const Result result = judged(bent, {rotation()}).results[0];
    EXPECT_EQ(result.verdict, Verdict::fail);
    ASSERT_TRUE(result.worst);
    EXPECT_EQ(result.worst->index, (std::vector<std::size_t>{2, 0, 5}));
    EXPECT_EQ(std::isnan(result.worst->got), std::isnan(wrong));
  }
}

TEST(Verdicts, a_nan_where_the_phase_is_no_evidence_still_fails) {
  const Case far = make_case("rope.cos_sin", {{"head_dim", 2}, {"dtype", "f32"}},
                             {{"positions", positions({1, 2147483647})}}, "");
  for (double wrong : {std::nan(""), 7.0}) {
    Bent bent(
        [wrong](const Request&, Answer answer) {
          answer.outputs["cos"].set(1, wrong);
          return answer;
        },
        "plain");
    EXPECT_EQ(judged(bent, {far}).results[0].verdict, Verdict::fail);
  }
}

/// A finite factor of 0 must not make a number of what an infinity touches, and no verdict may hang
/// on an infinite or lost limit.
TEST(Verdicts, what_a_nan_or_an_infinity_touches_is_free) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto of = [](const Shape& shape, const std::vector<double>& values) {
    Tensor tensor(Dtype::f32, shape);
    for (std::size_t i = 0; i < values.size(); ++i) tensor.set(i, values[i]);
    return tensor;
  };
  const Tensor at_0 = positions({0});
  for (const Case& asked :
       {make_case("rope.apply", {{"head_dim", 2}},
                  {{"x", of({1, 1, 2}, {inf, 1})}, {"positions", at_0}}, ""),
        make_case(
            "rope.rotate", json::object(),
            {{"x", of({1, 1, 2}, {inf, 1})}, {"cos", of({1, 1}, {1})}, {"sin", of({1, 1}, {0})}},
            ""),
        make_case("shaw.key_logits", {{"max_distance", 0}},
                  {{"q", of({1, 1, 2}, {inf, 1})},
                   {"relative_keys", of({1, 2}, {0, 1})},
                   {"q_positions", at_0},
                   {"k_positions", at_0}},
                  ""),
        make_case("attention", json::object(),
                  {{"q", of({1, 1, 1}, {inf})},
                   {"k", of({1, 2, 1}, {1, -1})},
                   {"v", of({1, 2, 1}, {1, 2})}},
                  ""),
        make_case("attention", {{"causal", true}},
                  {{"q", of({1, 1, 1}, {1})},
                   {"k", of({1, 2, 1}, {1, 1})},
                   {"v", of({1, 2, 1}, {2, inf})}},
                  "")})
    for (const char* name : {"plain", "plain64", "reference"}) {
      Bent right([](const Request&, Answer answer) { return answer; }, name);
      EXPECT_EQ(judged(right, {asked}).results[0].verdict, Verdict::pass)
          << asked.operation << name;
    }
}

/// A pair of zeros turns to zeros, also where its angle is unknown.
TEST(Verdicts, zeros_under_an_unknown_phase_are_known) {
  for (std::int64_t position : {1999937, 1500001, 1234567}) {
    Tensor k = numbers(Dtype::f32, {1, 3, 4}, 2);
    for (std::size_t j = 0; j < 3; ++j) k.set(4 * j, 0), k.set(4 * j + 2, 0);
    const Case asked =
        make_case("attention", {{"scheme", {{"name", "rope"}, {"parameters", {{"head_dim", 4}}}}}},
                  {{"q", numbers(Dtype::f32, {1, 1, 4}, 1)},
                   {"k", k},
                   {"v", numbers(Dtype::f32, {1, 3, 4}, 3)},
                   {"q_positions", positions({position})}},
                  "");
    Bent right([](const Request&, Answer answer) { return answer; }, "plain");
    EXPECT_EQ(judged(right, {asked}).results[0].verdict, Verdict::pass) << position;
  }
}

/// Scores so far apart that a weight is below the range of double: an unknown phase may still turn
/// it into the largest, and what the value term adds is bounded.
TEST(Verdicts, saturated_weights_have_honest_limits) {
  Tensor q(Dtype::f32, {1, 1, 2}, {0, 1}), k(Dtype::f32, {1, 2, 2}, {0, 0.5, 0, 1.75}),
      v(Dtype::f32, {1, 2, 2}, {0, 0, 0, 1});
  const Case unknown_phase = make_case(
      "attention",
      {{"scale", 10000}, {"scheme", {{"name", "rope"}, {"parameters", {{"head_dim", 2}}}}}},
      {{"q", q},
       {"k", k},
       {"v", v},
       {"q_positions", positions({19333429})},
       {"k_positions", positions({15, 0})}},
      "");
  const Case value_term = make_case(
      "attention",
      {{"scale", 500000}, {"scheme", {{"name", "shaw"}, {"parameters", {{"max_distance", 1}}}}}},
      {{"q", q},
       {"k", k},
       {"v", v},
       {"relative_keys", Tensor(Dtype::f32, {3, 2})},
       {"relative_values", Tensor(Dtype::f32, {3, 2}, {0, 0, 1, 0, 0, 0})}},
      "");
  for (const Case& asked : {unknown_phase, value_term}) {
    const Operation& operation = find_operation("attention");
    const Parameters parameters = checked_parameters(operation, asked.parameters);
    for (Grade grade : {Grade::P1, Grade::P2}) {
      const Bounds bounds =
          bounds_of(operation, parameters, asked.inputs,
                    rounding_of(grade, Dtype::f32, operation.has_phase(parameters)));
      for (double limit : bounds.at("out").limit) EXPECT_TRUE(std::isfinite(limit));
    }
  }
  // Which of the two keys an f32 angle makes the nearer one is not known.
  Bent other([](const Request&, Answer answer) {
    answer.outputs["out"] = Tensor(Dtype::f32, {1, 1, 2}, {0, 0});
    return answer;
  });
  EXPECT_EQ(judged(other, {unknown_phase}).results[0].verdict, Verdict::pass);
}

TEST(Verdicts, a_copied_lane_must_keep_its_bits) {
  const Case partial = rotation({{"rotary_dim", 4}});
  Bent bent([](const Request&, Answer answer) {
    answer.outputs["y"].set(7,
                            std::nextafter(static_cast<float>(answer.outputs["y"].value(7)), 9.f));
    return answer;
  });
  EXPECT_EQ(judged(bent, {partial}).results[0].verdict, Verdict::fail);
}

TEST(Declarations, exclude_operations_types_and_parameter_values) {
  Bent narrow([](const Request&, Answer answer) { return answer; });
  narrow.mutable_description().operations = {
      {"rope.apply", {{"f32"}, {{"layout", {"half"}}, {"rope_scaling.rope_type", {"default"}}}}}};
  const Case other = make_case("rope.inv_freq", {{"head_dim", 8}}, {}, "");
  const Case linear = rotation({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}});
  const Report report = judged(narrow, {rotation(), rotation({{"layout", "interleaved"}}),
                                        rotation(json::object(), Dtype::f64), other, linear});
  EXPECT_EQ(report.results[0].verdict, Verdict::pass);
  for (std::size_t i = 1; i < 5; ++i)
    EXPECT_EQ(report.results[i].verdict, Verdict::unsupported) << i;
  EXPECT_TRUE(report.good());
}

TEST(Reports, of_nothing_or_of_unsupported_cases_only_are_not_good) {
  Bent right([](const Request&, Answer answer) { return answer; });
  EXPECT_FALSE(judged(right, {}).good());
  Bent none(answering(Answer::Kind::unsupported));
  EXPECT_FALSE(judged(none, {rotation()}).good());
}

TEST(Waivers, are_shown_and_do_not_fail_and_must_match) {
  Bent wrong([](const Request&, Answer answer) {
    answer.outputs["y"].set(0, 9);
    return answer;
  });
  const Case asked = rotation();
  VerifyOptions options;
  options.waivers = {{asked.id, "", "known", ""}};
  Report report = judged(wrong, {asked}, options);
  EXPECT_EQ(report.results[0].verdict, Verdict::waived);
  EXPECT_TRUE(report.good());
  options.waivers.push_back({"rope-apply-00000000", "", "stale", ""});
  report = judged(wrong, {asked}, options);
  EXPECT_EQ(report.unmatched_waivers.size(), 1u);
  EXPECT_FALSE(report.good());
  Bent interleaved(with_layout("interleaved"));
  options.waivers = {{"", "K-RL1", "our layout", ""}};
  EXPECT_EQ(judged(interleaved, {asked}, options).results[0].verdict, Verdict::waived);
}

TEST(Silence, ends_an_operation_after_three_timeouts) {
  int asked = 0;
  Bent silent([&asked](const Request&, const Answer&) {
    ++asked;
    return Answer{Answer::Kind::timeout, {}, ""};
  });
  const Report report =
      judged(silent, {rotation(), rotation(), rotation(), rotation(), rotation()});
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(report.count(Verdict::timeout), 5u);
}

TEST(Reports, quote_the_command_that_replays_a_case) {
  Report report;
  report.command = "cmd:python3 it's.py";
  report.options = " --grade P1";
  EXPECT_EQ(report.reproduce("rope-apply-01234567"),
            "posproof verify 'cmd:python3 it'\\''s.py' --grade P1 --case rope-apply-01234567");
}

TEST(Reports, escape_what_an_implementation_says) {
  Bent rude([](const Request&, const Answer&) {
    return Answer{Answer::Kind::error, {}, "<&\"\x01>"};
  });
  const std::string junit = report_junit(judged(rude, {rotation()}));
  EXPECT_NE(junit.find("message=\"&lt;&amp;&quot;?&gt;\""), std::string::npos) << junit;
  EXPECT_NE(junit.find("errors=\"1\""), std::string::npos);
}

}  // namespace
}  // namespace posproof
