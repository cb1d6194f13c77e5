#include "reference/core/parameters.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "reference/core/registry.hpp"
#include "reference/core/truth.hpp"

namespace posproof {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

/// What a Refused says; a test failure when nothing or something else is thrown.
template <class Call>
std::string refusal_of(Call call) {
  try {
    call();
  } catch (const Refused& refused) {
    return refused.what();
  } catch (const std::exception& other) {
    ADD_FAILURE() << "threw something else: " << other.what();
    return "";
  }
  ADD_FAILURE() << "was not refused";
  return "";
}

/// The message begins with the name and holds every word.
::testing::AssertionResult says(const std::string& message, const std::string& name,
                                const Words& words) {
  if (message.rfind(name + ":", 0) != 0)
    return ::testing::AssertionFailure() << "does not begin with " << name << ": " << message;
  for (const std::string& word : words)
    if (message.find(word) == std::string::npos)
      return ::testing::AssertionFailure() << "lacks '" << word << "': " << message;
  return ::testing::AssertionSuccess();
}

const std::vector<ParameterSpec>& specification() {
  static const std::vector<ParameterSpec> specs{
      required_integer("width").must_be_at_least(2).must_be_at_most(64),
      required_number("theta").must_be_above(0),
      optional_integer("limit"),
      optional_number("scale"),
      integer("heads", 4),
      number("base", 10000).must_be_at_most(1e7),
      boolean("causal", true),
      choice("layout", {"half", "interleaved"}),
      choice("scaling.type", {"default", "linear"}),
      optional_number("scaling.factor").must_be_above(0),
      number("scaling.deep.beta", 32.5),
      object("scheme", {{"name", "nope"}})};
  return specs;
}

json valid() { return {{"width", 8}, {"theta", 2.5}}; }

std::string refusal_with(const std::string& pointer, const json& value) {
  json given = valid();
  given[json::json_pointer(pointer)] = value;
  return refusal_of([&] { Parameters(specification(), given); });
}

TEST(parameters, defaults_are_filled_in_and_absent_ones_stay_absent) {
  const Parameters p(specification(), valid());
  EXPECT_EQ(p.integer("width"), 8);
  EXPECT_EQ(p.number("theta"), 2.5);
  EXPECT_EQ(p.integer("heads"), 4);
  EXPECT_EQ(p.number("base"), 10000);
  EXPECT_TRUE(p.flag("causal"));
  EXPECT_EQ(p.text("layout"), "half");
  EXPECT_EQ(p.text("scaling.type"), "default");
  EXPECT_EQ(p.number("scaling.deep.beta"), 32.5);
  EXPECT_EQ(p.object("scheme"), json({{"name", "nope"}}));
  for (const char* absent : {"limit", "scale", "scaling.factor"}) EXPECT_FALSE(p.has(absent));
  for (const char* present : {"width", "heads", "scaling", "scaling.type", "scaling.deep.beta"})
    EXPECT_TRUE(p.has(present)) << present;
  EXPECT_EQ(p.given(), valid());
  EXPECT_EQ(p.with_defaults()["scaling"]["type"], "default");
}

TEST(parameters, dots_reach_inside_objects) {
  json given = valid();
  given["scaling"] = {{"type", "linear"}, {"factor", 4}, {"deep", {{"beta", 1}}}};
  const Parameters p(specification(), given);
  EXPECT_EQ(p.text("scaling.type"), "linear");
  EXPECT_EQ(p.number("scaling.factor"), 4);
  EXPECT_EQ(p.number("scaling.deep.beta"), 1);
  EXPECT_EQ(pointer_to("scaling.deep.beta"), json::json_pointer("/scaling/deep/beta"));
}

TEST(parameters, an_integer_may_be_written_as_a_whole_number_and_values_override_defaults) {
  json given = valid();
  given["width"] = 8.0;
  given["heads"] = -3.0;
  given["causal"] = false;
  given["layout"] = "interleaved";
  given["base"] = 100;
  const Parameters p(specification(), given);
  EXPECT_EQ(p.integer("width"), 8);
  EXPECT_EQ(p.integer("heads"), -3);
  EXPECT_FALSE(p.flag("causal"));
  EXPECT_EQ(p.text("layout"), "interleaved");
  EXPECT_EQ(p.number("base"), 100);
}

TEST(parameters, unknown_keys_are_refused_with_what_is_known) {
  EXPECT_TRUE(says(refusal_with("/widht", 8), "widht", {"unknown", "width", "theta", "layout"}));
  EXPECT_TRUE(says(refusal_with("/scaling/typ", "linear"), "scaling.typ",
                   {"unknown", "type", "factor", "deep.beta"}));
  EXPECT_TRUE(
      says(refusal_with("/scaling/deep/alpha", 1), "scaling.deep.alpha", {"unknown", "beta"}));
}

TEST(parameters, a_key_with_a_dot_in_it_is_unknown_and_not_ignored) {
  for (const char* key : {"scaling.factor", "scaling.deep"}) {
    json given = valid();
    given[key] = 4;
    EXPECT_TRUE(says(refusal_of([&] { Parameters(specification(), given); }), key, {"unknown"}));
  }
}

TEST(parameters, wrong_types_are_refused_with_what_was_found_and_what_is_allowed) {
  EXPECT_TRUE(says(refusal_with("/width", "8"), "width", {"\"8\"", "an integer >= 2 and <= 64"}));
  EXPECT_TRUE(says(refusal_with("/width", 8.5), "width", {"8.5", "an integer"}));
  EXPECT_TRUE(says(refusal_with("/width", true), "width", {"true", "an integer"}));
  EXPECT_TRUE(says(refusal_with("/limit", nullptr), "limit", {"null", "an integer"}));
  EXPECT_TRUE(says(refusal_with("/theta", "x"), "theta", {"\"x\"", "a number > 0"}));
  EXPECT_TRUE(says(refusal_with("/causal", 1), "causal", {"1", "true or false"}));
  EXPECT_TRUE(says(refusal_with("/layout", "neox"), "layout", {"\"neox\"", "half, interleaved"}));
  EXPECT_TRUE(says(refusal_with("/layout", 0), "layout", {"0", "half, interleaved"}));
  EXPECT_TRUE(says(refusal_with("/scheme", "rope"), "scheme", {"\"rope\"", "an object"}));
  EXPECT_TRUE(says(refusal_with("/scaling", 4), "scaling", {"4", "an object"}));
  EXPECT_TRUE(says(refusal_with("/scaling", nullptr), "scaling", {"null", "an object"}));
  EXPECT_TRUE(says(refusal_with("/scaling/type", "su"), "scaling.type", {"\"su\"", "linear"}));
}

TEST(parameters, values_out_of_range_are_refused_and_limits_are_not) {
  EXPECT_TRUE(says(refusal_with("/width", 1), "width", {"found 1,", ">= 2"}));
  EXPECT_TRUE(says(refusal_with("/width", 65), "width", {"65", "<= 64"}));
  EXPECT_TRUE(says(refusal_with("/theta", 0), "theta", {"found 0,", "> 0"}));
  EXPECT_TRUE(says(refusal_with("/theta", -2.5), "theta", {"-2.5", "> 0"}));
  EXPECT_TRUE(says(refusal_with("/base", 1.5e7), "base", {"15000000.0", "<= 10000000"}));
  EXPECT_TRUE(says(refusal_with("/scaling/factor", 0), "scaling.factor", {"found 0,", "> 0"}));
  EXPECT_TRUE(
      says(refusal_with("/scale", std::numeric_limits<double>::infinity()), "scale", {"a number"}));
  EXPECT_TRUE(says(refusal_with("/scale", std::numeric_limits<double>::quiet_NaN()), "scale",
                   {"a number"}));
  for (int width : {2, 64})
    EXPECT_NO_THROW(Parameters(specification(), {{"width", width}, {"theta", 1e-300}}));
}

TEST(parameters, missing_ones_are_refused_with_what_is_allowed) {
  const auto without = [](const char* name) {
    json given = valid();
    given.erase(name);
    return refusal_of([&] { Parameters(specification(), given); });
  };
  EXPECT_TRUE(says(without("width"), "width", {"missing", "an integer >= 2 and <= 64"}));
  EXPECT_TRUE(says(without("theta"), "theta", {"missing", "a number > 0"}));
}

TEST(parameters, anything_but_an_object_is_refused) {
  for (const json& given : {json::array({1}), json("width"), json(3), json(true)})
    EXPECT_TRUE(says(refusal_of([&] { Parameters(specification(), given); }), "parameters",
                     {given.dump(), "an object"}));
  EXPECT_TRUE(says(refusal_of([&] { Parameters(specification(), json()); }), "width", {"missing"}));
}

TEST(parameters, operations_refuse_what_contradicts_itself) {
  const auto refusal = [](const char* operation, const json& given) {
    return refusal_of([&] { checked_parameters(find_operation(operation), given); });
  };
  const json linear{{"head_dim", 8}, {"rope_scaling", {{"rope_type", "linear"}}}};
  EXPECT_TRUE(says(refusal("rope.apply", linear), "rope_scaling.factor", {"missing", "> 0"}));
  EXPECT_TRUE(says(refusal("rope.apply", {{"head_dim", 8}, {"rotary_dim", 10}}), "rotary_dim",
                   {"10", "head_dim = 8"}));
  EXPECT_TRUE(says(refusal("rope.inv_freq",
                           {{"head_dim", 8}, {"rotary_dim", 4}, {"partial_rotary_factor", 0.25}}),
                   "partial_rotary_factor", {"0.25", "rotary_dim = 4"}));
  EXPECT_TRUE(
      says(refusal("t5.bucket", {{"num_buckets", 2}}), "num_buckets", {"found 2,", ">= 4"}));
  EXPECT_TRUE(says(refusal("t5.bias", {{"max_distance", 8}}), "max_distance", {"found 8,", "8"}));
  EXPECT_TRUE(says(refusal("alibi.bias", {{"num_heads", 8}, {"head_offset", 8}}), "head_offset",
                   {"found 8,", "num_heads = 8"}));
  EXPECT_TRUE(
      says(refusal("alibi.bias", {{"num_heads", 8}, {"head_offset", 5}, {"local_heads", 4}}),
           "local_heads", {"found 4 ", "num_heads = 8"}));
  EXPECT_TRUE(says(refusal("attention", {{"scheme", {{"name", "learned"}}}}), "scheme.name",
                   {"learned", "nope", "rope", "alibi", "shaw", "t5"}));
  EXPECT_TRUE(says(refusal("attention", {{"scheme", {{"nam", "rope"}}}}), "scheme.nam", {"name"}));
  EXPECT_THROW(find_operation("rope.aply"), std::invalid_argument);
}

Tensors rope_inputs() {
  return {{"x", Tensor(Dtype::f32, {3, 2, 8})}, {"positions", Tensor::integers({3}, {0, 1, 2})}};
}

std::string refusal_of_inputs(const char* operation, const json& parameters,
                              const Tensors& inputs) {
  const Operation& found = find_operation(operation);
  return refusal_of([&] { check_inputs(found, checked_parameters(found, parameters), inputs); });
}

TEST(inputs, shapes_kinds_and_names_that_do_not_fit_are_refused) {
  const json p{{"head_dim", 8}};
  const auto with_x = [&](Tensor x) {
    Tensors inputs = rope_inputs();
    inputs["x"] = std::move(x);
    return refusal_of_inputs("rope.apply", p, inputs);
  };
  const auto with_positions = [&](Tensor positions) {
    Tensors inputs = rope_inputs();
    inputs["positions"] = std::move(positions);
    return refusal_of_inputs("rope.apply", p, inputs);
  };
  EXPECT_TRUE(says(with_x(Tensor(Dtype::f32, {3, 2, 6})), "x", {"[3,2,6]", "[T,H,D]", "D = 8"}));
  EXPECT_TRUE(says(with_x(Tensor(Dtype::f32, {3, 8})), "x", {"[3,8]", "[T,H,D]"}));
  EXPECT_TRUE(says(with_x(Tensor(Dtype::i64, {3, 2, 8})), "x", {"int64", "floating point"}));
  EXPECT_TRUE(
      says(with_positions(Tensor::integers({2}, {0, 1})), "positions", {"[2]", "[T]", "T = 3"}));
  EXPECT_TRUE(
      says(with_positions(Tensor(Dtype::f32, {3})), "positions", {"f32", "int64 or int32"}));
  EXPECT_TRUE(
      says(with_x(Tensor(Dtype::f32, {2, 3, 2, 8})), "positions", {"[3]", "[B,T]", "B = 2"}));
  Tensors inputs = rope_inputs();
  inputs.emplace("position_ids", Tensor::integers({3}, {0, 1, 2}));
  EXPECT_TRUE(says(refusal_of_inputs("rope.apply", p, inputs), "position_ids",
                   {"unknown", "rope.apply", "x, positions"}));
  inputs = rope_inputs();
  inputs.erase("positions");
  EXPECT_TRUE(says(refusal_of_inputs("rope.apply", p, inputs), "positions", {"missing", "[T]"}));
  EXPECT_TRUE(says(refusal_of_inputs("alibi.slopes", {{"num_heads", 2}}, rope_inputs()),
                   "positions", {"unknown", "none"}));
  EXPECT_TRUE(says(refusal_of_inputs("shaw.key_logits", {{"max_distance", 2}},
                                     {{"q", Tensor(Dtype::f32, {1, 2, 4})},
                                      {"relative_keys", Tensor(Dtype::f32, {4, 4})},
                                      {"q_positions", Tensor::integers({2}, {0, 1})},
                                      {"k_positions", Tensor::integers({1}, {0})}}),
                   "relative_keys", {"[4,4]", "2k+1 = 5"}));
}

TEST(inputs, a_batch_has_a_row) {
  EXPECT_TRUE(says(refusal_of_inputs("rope.apply", {{"head_dim", 2}},
                                     {{"x", Tensor(Dtype::f32, {0, 1, 1, 2})},
                                      {"positions", Tensor(Dtype::i64, {0, 1})}}),
                   "x", {"empty batch", "B >= 1"}));
}

TEST(inputs, the_heads_of_a_bias_are_those_of_attention) {
  const auto check = [](const json& alibi, std::size_t heads) {
    const Operation& attention = find_operation("attention");
    const Tensor x(Dtype::f32, {heads, 2, 4});
    check_inputs(
        attention,
        checked_parameters(attention, {{"scheme", {{"name", "alibi"}, {"parameters", alibi}}}}),
        {{"q", x}, {"k", x}, {"v", x}});
  };
  EXPECT_NO_THROW(check({{"num_heads", 3}}, 3));
  EXPECT_NO_THROW(check({{"num_heads", 8}, {"head_offset", 6}}, 2));
  const auto refusal = [&](const json& alibi, std::size_t heads) {
    return refusal_of([&] { check(alibi, heads); });
  };
  EXPECT_TRUE(says(refusal({{"num_heads", 3}}, 9), "q", {"[9,2,4]", "H = 3"}));
  EXPECT_TRUE(says(refusal({{"num_heads", 1}}, 2), "q", {"[2,2,4]", "H = 1"}));
  EXPECT_TRUE(says(refusal({{"num_heads", 8}, {"head_offset", 5}}, 2), "q", {"H = 3"}));
}

TEST(inputs, float_inputs_share_one_type) {
  EXPECT_TRUE(says(refusal_of_inputs("rope.rotate", json::object(),
                                     {{"x", Tensor(Dtype::bf16, {3, 2, 8})},
                                      {"cos", Tensor(Dtype::f32, {3, 4})},
                                      {"sin", Tensor(Dtype::f32, {3, 4})}}),
                   "cos", {"f32", "type of x, bf16"}));
}

TEST(inputs, positions_lie_inside_two_to_the_31) {
  for (std::int64_t limit : {std::int64_t{2147483647}, std::int64_t{-2147483647}})
    EXPECT_NO_THROW(
        check_inputs(find_operation("sinusoidal.table"),
                     checked_parameters(find_operation("sinusoidal.table"), {{"d_model", 4}}),
                     {{"positions", Tensor::integers({1}, {limit})}}));
  for (std::int64_t beyond :
       {std::int64_t{2147483648}, std::int64_t{-2147483648},
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()})
    EXPECT_TRUE(says(refusal_of_inputs("sinusoidal.table", {{"d_model", 4}},
                                       {{"positions", Tensor::integers({1}, {beyond})}}),
                     "positions", {std::to_string(beyond), "2^31"}));
  for (std::int64_t beyond : {std::int64_t{1} << 33, std::numeric_limits<std::int64_t>::min()})
    EXPECT_TRUE(says(refusal_of_inputs("t5.bucket", json::object(),
                                       {{"relative_positions", Tensor::integers({1}, {beyond})}}),
                     "relative_positions", {std::to_string(beyond), "2^32"}));
}

}  // namespace
}  // namespace posproof
