#include "reference/alibi.hpp"

#include <algorithm>

#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"
#include "reference/core/registry.hpp"

namespace posproof::properties::alibi {
namespace {

using nlohmann::json;

/// Sums of three of these are positions, and no bias overflows: slopes are below 1.
std::int64_t reach(const json& parameters) {
  return parameters["dtype"] == "f16" ? 16384 : std::int64_t{1} << 29;
}

json drawn_slopes(Subject& subject) {
  return {{"num_heads", *head_counts()},
          {"rule", *one_of(std::vector<std::string>{"press", "geometric"})},
          {"bias_max", *one_of(std::vector<double>{8, 16, 1, 5.5})},
          {"dtype", name(subject.drawn_dtype())}};
}

json with(json parameters, const std::string& key, const json& value) {
  parameters[key] = value;
  return parameters;
}

Measured bias(Subject& subject, const json& parameters, const std::vector<std::int64_t>& queries,
              const std::vector<std::int64_t>& keys) {
  return subject
      .measure("alibi.bias", parameters,
               {{"q_positions", integers(queries)}, {"k_positions", integers(keys)}})
      .at("bias");
}

bool is_power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

/// Never rises with distance, and falls strictly wherever the exact step exceeds the bounds of
/// both.
void bias_falls_with_distance(Subject& subject) {
  const bool causal = *rc::gen::arbitrary<bool>();
  const json parameters = with(drawn_slopes(subject), "causal", causal);
  const std::int64_t query = *positions(reach(parameters));
  const std::int64_t near = *between(0, 200),
                     far = near + std::abs(*positions(reach(parameters))) + 1;
  const std::int64_t side = causal || *rc::gen::arbitrary<bool>() ? -1 : 1;
  const Measured b = bias(subject, parameters, {query}, {query + side * near, query + side * far});
  const Parameters checked = checked_parameters(find_operation("alibi.bias"), parameters);
  bool falls = false;
  for (std::size_t h = 0; h < b.got.shape()[0]; ++h) {
    const Range &at_near = b.range(h, 0, 0), &at_far = b.range(h, 0, 1);
    RC_ASSERT(!certainly_less(at_near, at_far));
    const double step =
        estimate(reference::alibi::slope<Range>(checked, static_cast<std::int64_t>(h))) *
        static_cast<double>(far - near);
    if (step <= (radius(at_near) + radius(at_far)) * (1 + 1e-9)) continue;
    RC_ASSERT(b.got.value(2 * h + 1) < b.got.value(2 * h));
    falls = true;
  }
  RC_CLASSIFY(falls, "falls");
  RC_CLASSIFY(!causal && side == 1, "keys after the query");
}

void diagonal_is_zero(Subject& subject) {
  const json parameters = with(drawn_slopes(subject), "causal", *rc::gen::arbitrary<bool>());
  const std::int64_t at = *positions(reach(parameters));
  const Measured b = bias(subject, parameters, {at, at + 1}, {at, at + 1});
  for (std::size_t h = 0; h < b.got.shape()[0]; ++h)
    for (std::size_t i : {0, 3}) RC_ASSERT(b.got.value(4 * h + i) == 0);
}

/// bias(d)·e = bias(e)·d, from any query: a line without an end, the same everywhere.
void bias_is_linear_in_the_offset(Subject& subject) {
  const json parameters = drawn_slopes(subject);
  const std::int64_t query = *positions(reach(parameters)), d = *positions(reach(parameters)),
                     e = *positions(reach(parameters));
  const Measured b = bias(subject, parameters, {query, 0}, {query + d, e});
  for (std::size_t h = 0; h < b.got.shape()[0]; ++h)
    require_meet(b.range(h, 0, 0) * Range(static_cast<double>(e)),
                 b.range(h, 1, 1) * Range(static_cast<double>(d)), "head " + std::to_string(h));
  RC_CLASSIFY(d != e && d != 0 && e != 0, "two offsets");
}

void bias_is_slope_times_distance(Subject& subject) {
  const json parameters = drawn_slopes(subject);
  const bool causal = *rc::gen::arbitrary<bool>();
  const std::int64_t query = *positions(reach(parameters)), key = *positions(reach(parameters));
  const Measured slopes = subject.measure("alibi.slopes", parameters, {}).at("slopes");
  const Measured b = bias(subject, with(parameters, "causal", causal), {query}, {key});
  const auto distance = static_cast<double>(causal ? key - query : -std::abs(key - query));
  for (std::size_t h = 0; h < b.got.shape()[0]; ++h)
    require_meet(b.range(h, 0, 0), slopes.range(h) * Range(distance), "head " + std::to_string(h));
  RC_CLASSIFY(!causal && key > query, "keys after the query");
  RC_CLASSIFY(causal && key < query, "keys before the query");
}

void a_shard_is_a_slice_of_the_whole(Subject& subject) {
  const json parameters = drawn_slopes(subject);
  const std::int64_t heads = parameters["num_heads"];
  const std::int64_t first = *between(0, heads - 1), count = *between(1, heads - first);
  const std::vector<std::int64_t> queries = *position_lists(2, reach(parameters)),
                                  keys = *position_lists(2, reach(parameters));
  const Measured whole = bias(subject, parameters, queries, keys);
  const Measured shard = bias(
      subject, with(with(parameters, "head_offset", first), "local_heads", count), queries, keys);
  for (std::size_t h = 0; h < static_cast<std::size_t>(count); ++h)
    for (std::size_t i : {0, 1})
      for (std::size_t j : {0, 1})
        require_meet(shard.range(h, i, j), whole.range(h + static_cast<std::size_t>(first), i, j),
                     "head " + std::to_string(h) + " of the shard");
  RC_CLASSIFY(first > 0 && !is_power_of_two(heads), "inside an odd count");
}

/// slope_h² = slope_{h−1}·slope_{h+1}, and the last is 2^−bias_max: for the geometric rule, and for
/// counts that are powers of two.
void slopes_are_geometric(Subject& subject) {
  const json parameters = drawn_slopes(subject);
  const std::int64_t heads = parameters["num_heads"];
  RC_PRE(parameters["rule"] == "geometric" || is_power_of_two(heads));
  const Measured slopes = subject.measure("alibi.slopes", parameters, {}).at("slopes");
  const std::size_t last = static_cast<std::size_t>(heads) - 1;
  const double bias_max = parameters["bias_max"];
  require_meet(slopes.range(last), power_of_two(Range(-bias_max), Range(1), -bias_max),
               "last slope");
  for (std::size_t h = 1; h < last; ++h)
    require_meet(slopes.range(h) * slopes.range(h), slopes.range(h - 1) * slopes.range(h + 1),
                 "slope " + std::to_string(h) + " squared");
  RC_CLASSIFY(last > 1, "three heads or more");
}

/// Whatever the limit, the bias is below it at twice the distance where the slope reaches it.
void bias_has_no_floor(Subject& subject) {
  const json parameters = with(drawn_slopes(subject), "causal", *rc::gen::arbitrary<bool>());
  const Parameters checked = checked_parameters(find_operation("alibi.bias"), parameters);
  std::vector<double> slopes;
  for (std::int64_t h = 0; h < parameters["num_heads"]; ++h)
    slopes.push_back(estimate(reference::alibi::slope<Range>(checked, h)));
  double farthest = std::ldexp(1, 31) - 1;
  if (parameters["dtype"] == "f16")
    farthest = std::min(farthest, 32768 / *std::max_element(slopes.begin(), slopes.end()));
  const std::int64_t distance =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(farthest) >> *between(0, 20));
  const std::int64_t key = -(distance / 2);
  const Measured b = bias(subject, parameters, {key + distance}, {key});
  bool falls = false;
  for (std::size_t h = 0; h < slopes.size(); ++h) {
    const double limit = slopes[h] * static_cast<double>(distance) / 2;
    if (b.limit[h] >= limit * (1 - 1e-9)) continue;
    RC_ASSERT(b.got.value(h) < -limit);
    falls = true;
  }
  RC_CLASSIFY(falls && distance > 1 << 24, "beyond any context");
}

/// One pair of positions, alone and in a sequence that goes on behind them.
void bias_is_the_same_at_every_training_length(Subject& subject) {
  const json parameters = with(drawn_slopes(subject), "causal", *rc::gen::arbitrary<bool>());
  const std::int64_t query = *positions(reach(parameters)), key = *positions(reach(parameters));
  std::vector<std::int64_t> queries = *position_lists(2, reach(parameters)),
                            keys = *position_lists(3, reach(parameters));
  const std::int64_t last = *std::max_element(keys.begin(), keys.end());
  const std::size_t i = *count_between(0, 2), j = *count_between(0, 3);
  queries.insert(queries.begin() + static_cast<std::ptrdiff_t>(i), query);
  keys.insert(keys.begin() + static_cast<std::ptrdiff_t>(j), key);
  const Measured alone = bias(subject, parameters, {query}, {key}),
                 among = bias(subject, parameters, queries, keys);
  for (std::size_t h = 0; h < alone.got.size(); ++h)
    require_meet(alone.range(h, 0, 0), among.range(h, i, j),
                 "bias alone and among others, head " + std::to_string(h));
  RC_CLASSIFY(query != key && last > std::max(query, key), "in a longer sequence");
}

/// Softmax cannot tell the forms apart: their difference is one number per row.
void forms_differ_by_a_constant_per_row(Subject& subject) {
  const json parameters = drawn_slopes(subject);
  const std::int64_t query = *positions(reach(parameters));
  const std::vector<std::int64_t> keys = *position_lists(2, reach(parameters));
  const Measured distance = bias(subject, with(parameters, "form", "distance"), {query}, keys);
  const Measured key = bias(subject, with(parameters, "form", "key"), {query}, keys);
  for (std::size_t h = 0; h < key.got.shape()[0]; ++h)
    require_meet(key.range(h, 0, 0) - distance.range(h, 0, 0),
                 key.range(h, 0, 1) - distance.range(h, 0, 1), "head " + std::to_string(h));
  RC_CLASSIFY(keys[0] != keys[1] && query != 0, "two keys");
}

/// And so the key form serves wherever the distance form has no keys after the query, or counts
/// them as negative distances.
void attention_cannot_tell_the_forms_apart(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t heads = *count_between(1, 3), tokens = *count_between(2, 4);
  json parameters{{"num_heads", heads}, {"bias_max", *one_of(std::vector<double>{2, 8, 0.5})}};
  const bool causal = *rc::gen::arbitrary<bool>();
  parameters["causal"] = !causal || *rc::gen::arbitrary<bool>();
  std::vector<std::int64_t> at{*between(0, 64)};
  while (at.size() < tokens) at.push_back(at.back() + *between(1, 8));
  Tensors inputs;
  for (const char* name : {"q", "k", "v"})
    inputs.emplace(name, *tensors(dtype, {heads, tokens, 4}, 1));
  for (const char* name : {"q_positions", "k_positions"}) inputs.emplace(name, integers(at));
  const auto out_in_form = [&](const char* form) {
    const json scheme{{"name", "alibi"}, {"parameters", with(parameters, "form", form)}};
    return subject.measure("attention", {{"scheme", scheme}, {"causal", causal}}, inputs).at("out");
  };
  const Measured distance = out_in_form("distance"), key = out_in_form("key");
  double error = 0;
  for (std::size_t i = 0; i < key.got.size(); ++i) {
    require_meet(distance.range.data()[i], key.range.data()[i], "out " + std::to_string(i));
    error = std::max(error, radius(key.range.data()[i]));
  }
  RC_CLASSIFY(causal && at[0] != 0 && error < 1. / 16, "under a mask");
  RC_CLASSIFY(!causal && at[0] != 0 && error < 1. / 16, "without a mask");
}

}  // namespace

std::vector<Law> laws() {
  const std::vector<std::string> bias{"alibi.bias"}, both{"alibi.bias", "alibi.slopes"};
  return {
      {"alibi/bias_falls_with_distance",
       bias,
       bias_falls_with_distance,
       {"falls", "keys after the query"}},
      {"alibi/diagonal_is_zero", bias, diagonal_is_zero},
      {"alibi/bias_is_linear_in_the_offset", bias, bias_is_linear_in_the_offset, {"two offsets"}},
      {"alibi/bias_is_slope_times_distance",
       both,
       bias_is_slope_times_distance,
       {"keys after the query", "keys before the query"}},
      {"alibi/a_shard_is_a_slice_of_the_whole",
       bias,
       a_shard_is_a_slice_of_the_whole,
       {"inside an odd count"}},
      {"alibi/slopes_are_geometric",
       {"alibi.slopes"},
       slopes_are_geometric,
       {"three heads or more"}},
      {"alibi/forms_differ_by_a_constant_per_row",
       bias,
       forms_differ_by_a_constant_per_row,
       {"two keys"}},
      {"alibi/bias_has_no_floor", bias, bias_has_no_floor, {"beyond any context"}},
      {"alibi/bias_is_the_same_at_every_training_length",
       bias,
       bias_is_the_same_at_every_training_length,
       {"in a longer sequence"}},
      {"alibi/attention_cannot_tell_the_forms_apart",
       {"attention"},
       attention_cannot_tell_the_forms_apart,
       {"under a mask", "without a mask"}}};
}

}  // namespace posproof::properties::alibi
