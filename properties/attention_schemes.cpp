#include "properties/attention.hpp"

namespace posproof::properties::attention {
namespace {

/// Far enough for every context where positions are only turned or looked up; near enough for a
/// bias that has to fit 16 bits.
std::int64_t reach(const Encoding& encoding) {
  return name_of(encoding) == "alibi" ? 4096 : std::int64_t{1} << 29;
}

/// Softmax of one score is 1: whatever a scheme does to queries and keys, the value arrives as it
/// is. Shaw's value term, which adds to it, is left out.
void one_visible_key_gives_back_its_value_unrotated(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  Encoding encoding = drawn_encoding(dtype);
  encoding.tensors.erase("relative_values");
  const std::size_t queries = *count_between(1, 2), keys = *count_between(1, 3),
                    seen = *count_between(0, keys - 1);
  Tensors inputs = drawn_inputs(dtype, queries, keys);
  const auto k_at = *position_lists(keys, reach(encoding));
  inputs.emplace("q_positions", integers(*position_lists(queries, reach(encoding))));
  inputs.emplace("k_positions", integers(k_at));
  std::vector<std::int64_t> visible(keys, 0);
  visible[seen] = 1;
  inputs.emplace("key_mask", integers(visible));
  const Measured out = attended(subject, encoding, false, inputs);
  double error = 0, size = 0;
  for (std::size_t h = 0; h < kHeads; ++h)
    for (std::size_t i = 0; i < queries; ++i)
      for (std::size_t lane = 0; lane < kWidth; ++lane) {
        const double value = inputs.at("v").value((h * keys + seen) * kWidth + lane);
        require_meet(out.range(h, i, lane), Range(value),
                     "out and value of the one key, lane " + std::to_string(lane));
        error = std::max(error, radius(out.range(h, i, lane)));
        size = std::max(size, std::fabs(value));
      }
  if (k_at[seen] != 0 && error < size / 64) RC_TAG(name_of(encoding));
}

void shifting_all_positions_changes_nothing(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  const Encoding encoding = drawn_encoding(dtype);
  const bool causal = *rc::gen::arbitrary<bool>();
  const std::size_t words = *count_between(2, 4);
  const Tensors inputs = drawn_inputs(dtype, words, words);
  const std::int64_t shift = *positions(std::int64_t{1} << 29);
  std::vector<std::int64_t> at{*between(0, 40)};
  while (at.size() < words) at.push_back(at.back() + *between(1, 40));
  const auto at_positions = [&](std::int64_t by) {
    std::vector<std::int64_t> moved = at;
    for (std::int64_t& position : moved) position += by;
    Tensors positioned = inputs;
    for (const char* name : {"q_positions", "k_positions"})
      positioned.emplace(name, integers(moved));
    return attended(subject, encoding, causal, positioned);
  };
  const Measured here = at_positions(0), there = at_positions(shift);
  require_rows(here, from_to(0, words), there);
  double error = 0;
  for (const Range& range : there.range) error = std::max(error, radius(range));
  if (shift != 0 && error < 1. / 16) RC_TAG(name_of(encoding));
}

/// The biases of head h at distance 0 … 3.
struct Biases {
  Encoding encoding;
  std::array<std::array<double, 4>, kHeads> at;
};

Biases drawn_biases(Dtype dtype) {
  Biases biases{alibi(dtype), {}};
  const bool are_learned = *rc::gen::arbitrary<bool>();
  if (are_learned) {
    biases.encoding = t5(dtype);
    biases.encoding.scheme["parameters"]["bidirectional"] = false;  // buckets 0 … 3 hold one each
  }
  for (std::size_t h = 0; h < kHeads; ++h)
    for (std::size_t distance = 0; distance < 4; ++distance)
      biases.at[h][distance] =
          are_learned ? biases.encoding.tensors.at("table").value(distance * kHeads + h)
                      : -std::ldexp(static_cast<double>(distance), -static_cast<int>(h) - 1);
  return biases;
}

/// softmax(factor·bias)·v of one lane.
Range mixed(const std::vector<double>& bias, double factor, const std::vector<double>& value) {
  Range sum(0), all(0);
  for (std::size_t j = 0; j < bias.size(); ++j) {
    const Range weight = exponential(Range(Range(bias[j]) * Range(factor)));
    sum += weight * Range(value[j]);
    all += weight;
  }
  return sum / all;
}

/// A query of zeros leaves the bias alone in the scores, in any width and at any scale.
void biases_are_never_scaled(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  const Biases biases = drawn_biases(dtype);
  const std::size_t width = *one_of(Shape{1, 2, 4, 16, 64}), keys = *count_between(2, 4);
  const std::optional<double> scale =
      *one_of(std::vector<std::optional<double>>{std::nullopt, 0.125, 3});
  const std::int64_t query = *positions(4096);
  const auto distances = *rc::gen::container<std::vector<std::size_t>>(keys, count_between(0, 3));
  std::vector<std::int64_t> k_at;
  for (std::size_t distance : distances)
    k_at.push_back(query - static_cast<std::int64_t>(distance));
  const Tensor k = *tensors(dtype, {kHeads, keys, width}, 1),
               v = *tensors(dtype, {kHeads, keys, width}, 1);
  Tensors inputs = biases.encoding.tensors;
  inputs.insert({{"q", Tensor(dtype, {kHeads, 1, width})},
                 {"k", k},
                 {"v", v},
                 {"q_positions", integers({query})},
                 {"k_positions", integers(k_at)}});
  json parameters{{"scheme", biases.encoding.scheme}};
  if (scale) parameters["scale"] = *scale;
  const Measured out = subject.measure("attention", parameters, inputs).at("out");
  const double factor = scale ? *scale : 1 / std::sqrt(static_cast<double>(width));
  for (std::size_t h = 0; h < kHeads; ++h)
    for (std::size_t lane = 0; lane < width; ++lane) {
      std::vector<double> bias, value;
      for (std::size_t j = 0; j < keys; ++j) {
        bias.push_back(biases.at[h][distances[j]]);
        value.push_back(v.value((h * keys + j) * width + lane));
      }
      const Range right = mixed(bias, 1, value);
      require_meet(out.range(h, 0, lane), right, "out, and values under the softmax of the bias");
      const double moved = std::fabs(estimate(Range(right - mixed(bias, factor, value))));
      if (moved > 4 * radius(out.range(h, 0, lane))) RC_TAG(name_of(biases.encoding));
    }
}

}  // namespace

std::vector<Law> laws_of_schemes() {
  const std::vector<std::string> attention{"attention"};
  return {
      {"attention/one_visible_key_gives_back_its_value_unrotated", attention,
       one_visible_key_gives_back_its_value_unrotated, kEveryScheme},
      {"attention/shifting_all_positions_changes_nothing", attention,
       shifting_all_positions_changes_nothing, kEveryScheme},
      {"attention/biases_are_never_scaled", attention, biases_are_never_scaled, {"alibi", "t5"}}};
}

}  // namespace posproof::properties::attention
