#include <gtest/gtest.h>

#include <cmath>

#include "conformance/tests/bent.hpp"

namespace posproof {
namespace {

using nlohmann::json;

TEST(Grades, of_an_operation_are_its_worst_per_type) {
  Bent plain([](const Request&, Answer answer) { return answer; }, "plain");
  const Report report = judged(plain, {rotation(), rotation(json::object(), Dtype::bf16)});
  EXPECT_EQ(report.grades.at("rope.apply").at("f32"), Grade::P2);
  const json written = report_json(report);
  EXPECT_EQ(written["grades"]["rope.apply"]["f32"], "P2");
  EXPECT_EQ(written["grade"]["rope.apply"], "P2");
}

TEST(Grades, demanded_and_not_met_are_a_fail) {
  Bent plain([](const Request&, Answer answer) { return answer; }, "plain");
  VerifyOptions options;
  options.demanded_grade = Grade::P1;
  const Report report = judged(plain, {rotation()}, options);
  EXPECT_EQ(report.results[0].verdict, Verdict::fail);
  EXPECT_EQ(report.results[0].message, "is P2, demanded is P1");
  options.demanded_grade = Grade::P2;
  EXPECT_TRUE(judged(plain, {rotation()}, options).good());
}

TEST(Grades, a_16_bit_table_under_f32_inputs_is_no_grade) {
  Bent rounded([](const Request&, Answer answer) {
    answer.outputs["cos"] = answer.outputs["cos"].as(Dtype::bf16).as(Dtype::f32);
    return answer;
  });
  const Case table = make_case("rope.cos_sin", {{"head_dim", 8}, {"dtype", "f32"}},
                               {{"positions", positions({1, 2, 3})}}, "");
  EXPECT_EQ(judged(rounded, {table}).results[0].verdict, Verdict::fail);
}

TEST(Grades, need_evidence_of_the_phase) {
  const Case far =
      make_case("sinusoidal.table", {{"d_model", 3}, {"odd", "zero_pad"}, {"dtype", "f32"}},
                {{"positions", positions({2147483647})}}, "");
  Bent plain([](const Request&, Answer answer) { return answer; }, "plain");
  const Report report = judged(plain, {far});
  EXPECT_EQ(report.results[0].verdict, Verdict::pass);
  EXPECT_FALSE(report.results[0].grade);
}

/// Rounded to 16 bits on the way, an honest answer errs much; a mistake must still show.
TEST(Grades, of_attention_in_16_bits_see_mistakes) {
  const auto attention = [](Dtype dtype, const json& scheme, std::size_t head_dim) {
    return make_case("attention", {{"causal", true}, {"scheme", scheme}},
                     {{"q", numbers(dtype, {2, 4, head_dim}, 1)},
                      {"k", numbers(dtype, {2, 12, head_dim}, 2)},
                      {"v", numbers(dtype, {2, 12, head_dim}, 3)},
                      {"q_positions", positions({11, 70, 300, 301})}},
                     "");
  };
  const json rope{{"name", "rope"}, {"parameters", {{"head_dim", 4}}}},
      alibi{{"name", "alibi"}, {"parameters", {{"num_heads", 2}}}};
  const auto with_parameter = [](const char* name, const json& value) {
    return [name, value](Request request, const Answer&) {
      request.parameters["scheme"]["parameters"][name] = value;
      return open_builtin("plain64")->run(request, std::chrono::seconds(1));
    };
  };
  const auto with_scheme = [](const json& scheme) {
    return [scheme](Request request, const Answer&) {
      request.parameters["scheme"] = scheme;
      return open_builtin("plain64")->run(request, std::chrono::seconds(1));
    };
  };
  for (Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    for (const Bent::Bend& wrong :
         {Bent::Bend(with_scheme({{"name", "nope"}})), Bent::Bend(with_parameter("bias_max", 6))}) {
      Bent bent(wrong);
      EXPECT_EQ(judged(bent, {attention(dtype, alibi, 8)}).results[0].verdict, Verdict::fail);
    }
    for (const Bent::Bend& wrong :
         {Bent::Bend(with_scheme({{"name", "nope"}})), Bent::Bend(with_parameter("inverse", true)),
          Bent::Bend(with_parameter("rope_theta", 500000)),
          Bent::Bend(with_parameter("layout", "interleaved"))}) {
      Bent bent(wrong);
      const Result result = judged(bent, {attention(dtype, rope, 4)}).results[0];
      EXPECT_NE(result.verdict, Verdict::pass)
          << name(dtype) << (result.worst ? to_string(*result.worst) : "");
    }
  }
}

TEST(Conventions, explain_what_is_right_under_another_value) {
  Bent interleaved(with_layout("interleaved"));
  const Report report = judged(interleaved, {rotation(), rotation({{"layout", "interleaved"}}),
                                             rotation(json::object(), Dtype::f64)});
  EXPECT_EQ(report.count(Verdict::convention), 2u);
  EXPECT_EQ(report.count(Verdict::pass), 1u);
  EXPECT_FALSE(report.good());
  ASSERT_EQ(report.diagnosis.size(), 1u);
  EXPECT_EQ(report.diagnosis[0].kind, "K-RL1");
  EXPECT_EQ(report.diagnosis[0].title, "interleaved layout where half was declared");
  EXPECT_EQ(report.diagnosis[0].parameter, "layout");
  EXPECT_EQ(report.diagnosis[0].declared, "half");
  EXPECT_EQ(report.diagnosis[0].actual, "interleaved");
  EXPECT_EQ(report.diagnosis[0].explains, 2u);
}

TEST(Conventions, are_silent_about_what_had_to_be_refused) {
  Bent interleaved([](const Request& request, const Answer& answer) {
    if (request.parameters.contains("rotary_dim"))
      return Answer{Answer::Kind::outputs, {{"y", request.inputs.at("x")}}, ""};
    return with_layout("interleaved")(request, answer);
  });
  const Report report = judged(interleaved, {rotation(), odd_rotary_dim()});
  EXPECT_EQ(report.results[0].verdict, Verdict::convention);
  EXPECT_EQ(report.results[1].verdict, Verdict::fail);
  EXPECT_EQ(report.diagnosis.at(0).explains, 1u);
  EXPECT_EQ(report.diagnosis.at(0).of, 2u);
}

TEST(Conventions, are_not_claimed_when_they_leave_one_failure_unexplained) {
  Bent partly([](Request request, Answer answer) {
    if (request.inputs.at("x").dtype() == Dtype::f64) {
      answer.outputs["y"].set(0, 100);
      return answer;
    }
    return with_layout("interleaved")(request, answer);
  });
  const Report report = judged(partly, {rotation(), rotation(json::object(), Dtype::f64)});
  EXPECT_EQ(report.count(Verdict::fail), 2u);
  EXPECT_TRUE(report.diagnosis.empty());
}

TEST(Conventions, reach_into_the_scheme_of_attention) {
  const Case asked =
      make_case("attention", {{"scheme", {{"name", "rope"}, {"parameters", {{"head_dim", 4}}}}}},
                {{"q", numbers(Dtype::f32, {1, 3, 4}, 1)},
                 {"k", numbers(Dtype::f32, {1, 3, 4}, 2)},
                 {"v", numbers(Dtype::f32, {1, 3, 4}, 3)}},
                "");
  Bent bent([](Request request, const Answer&) {
    request.parameters["scheme"]["parameters"]["layout"] = "interleaved";
    return open_builtin("plain64")->run(request, std::chrono::seconds(1));
  });
  const Report report = judged(bent, {asked});
  EXPECT_EQ(report.results[0].verdict, Verdict::convention);
  EXPECT_EQ(report.diagnosis.at(0).parameter, "scheme.parameters.layout");
}

TEST(Recipes, are_told_apart_where_positions_are_far) {
  const Case far = make_case("rope.cos_sin", {{"head_dim", 64}, {"dtype", "f32"}},
                             {{"positions", positions({1, 65537, 1048577})}}, "");
  for (const auto& [recipe, expected] :
       {std::pair{Recipe::exact, "exact"}, std::pair{Recipe::hf_f32, "hf_f32"},
        std::pair{Recipe::ggml_f32_chain, "ggml_f32_chain"}}) {
    Bent follower([recipe = recipe](const Request& request, const Answer&) {
      Tensors outputs;
      for (const auto& [name, truth] :
           expectation_of(request.operation, request.parameters, request.inputs, recipe).truth)
        outputs[name] = truth.rounded;
      return Answer{Answer::Kind::outputs, outputs, ""};
    });
    const Report report = judged(follower, {far});
    EXPECT_TRUE(report.good()) << expected;
    EXPECT_EQ(name(report.recipes.at("rope.cos_sin").recipe), expected);
    for (Recipe judged_by : {Recipe::hf_f32, Recipe::ggml_f32_chain}) {
      VerifyOptions options;
      options.recipe = judged_by;
      EXPECT_EQ(judged(follower, {far}, options).good(), judged_by == recipe);
    }
  }
}

}  // namespace
}  // namespace posproof
