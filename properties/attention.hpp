#pragma once

#include <array>
#include <numeric>

#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"
#include "reference/core/registry.hpp"

namespace posproof::properties::attention {

using nlohmann::json;
using Order = std::vector<std::size_t>;

inline constexpr std::size_t kHeads = 2, kWidth = 4;

/// A scheme with its parameters and tensors, for kHeads heads of kWidth.
struct Encoding {
  json scheme;
  Tensors tensors = {};
};

/// Rows that differ from each other by at least a half in every lane.
inline Tensor separated_rows(Dtype dtype, std::size_t rows, std::size_t width) {
  const Order order = *permutations(rows);
  Tensor table(dtype, {rows, width});
  for (std::size_t i = 0; i < table.size(); ++i)
    table.set(i, (static_cast<double>(order[i / width]) - static_cast<double>(rows) / 2) / 2);
  return table;
}

inline Encoding rope(Dtype) {
  return {{{"name", "rope"},
           {"parameters",
            {{"head_dim", kWidth},
             {"layout", *one_of(std::vector<std::string>{"half", "interleaved"})}}}}};
}
inline Encoding alibi(Dtype) {
  return {{{"name", "alibi"},
           {"parameters", {{"num_heads", kHeads}, {"bias_max", 2}, {"causal", false}}}}};
}
inline Encoding shaw(Dtype dtype) {
  const std::size_t k = *count_between(1, 3);
  Encoding encoding{{{"name", "shaw"}, {"parameters", {{"max_distance", k}}}},
                    {{"relative_keys", separated_rows(dtype, 2 * k + 1, kWidth)}}};
  if (*rc::gen::arbitrary<bool>())
    encoding.tensors.emplace("relative_values", separated_rows(dtype, 2 * k + 1, kWidth));
  return encoding;
}
inline Encoding t5(Dtype dtype) {
  Tensor table = separated_rows(dtype, 8, kHeads);
  for (std::size_t i = 1; i < table.size(); i += kHeads)  // heads differ, too
    table.set(i, -table.value(i));
  return {{{"name", "t5"},
           {"parameters",
            {{"num_buckets", 8},
             {"max_distance", 20},
             {"bidirectional", *rc::gen::arbitrary<bool>()}}}},
          {{"table", table}}};
}
inline Encoding nope(Dtype) { return {{{"name", "nope"}}}; }

inline const std::vector<std::string> kEveryScheme{"nope", "rope", "alibi", "shaw", "t5"};
inline Encoding drawn_encoding(Dtype dtype) {
  return std::array{nope, rope, alibi, shaw, t5}[*count_between(0, 4)](dtype);
}
inline std::string name_of(const Encoding& encoding) { return encoding.scheme["name"]; }

inline Tensors drawn_inputs(Dtype dtype, std::size_t queries, std::size_t keys) {
  return {{"q", *tensors(dtype, {kHeads, queries, kWidth}, 1)},
          {"k", *tensors(dtype, {kHeads, keys, kWidth}, 1)},
          {"v", *tensors(dtype, {kHeads, keys, kWidth}, 1)}};
}

inline Tensors self_attention(const Tensor& tokens) {
  return {{"q", tokens}, {"k", tokens}, {"v", tokens}};
}

/// Token t is near 1 + e_t: distinct, with a common part in every pair, and values that show the
/// weights.
inline Tensor drawn_tokens(Dtype dtype) {
  const Tensor noise = *tensors(dtype, {kHeads, 3, kWidth}, -3);
  Tensor tokens(dtype, noise.shape());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens.set(i, 1 + noise.value(i) + (i / kWidth % 3 == i % kWidth ? 1 : 0));
  return tokens;
}

/// first, first + 1, …, last − 1.
inline Order from_to(std::size_t first, std::size_t last) {
  Order order(last - first);
  std::iota(order.begin(), order.end(), first);
  return order;
}

inline Measured attended(Subject& subject, const Encoding& encoding, bool causal, Tensors inputs) {
  inputs.insert(encoding.tensors.begin(), encoding.tensors.end());
  return subject.measure("attention", {{"scheme", encoding.scheme}, {"causal", causal}}, inputs)
      .at("out");
}

/// What it should be, in double arithmetic: good enough to know how large an effect should be.
inline xt::xarray<double> estimated(const Encoding& encoding, bool causal, Tensors inputs) {
  inputs.insert(encoding.tensors.begin(), encoding.tensors.end());
  const Operation& operation = find_operation("attention");
  const json parameters{{"scheme", encoding.scheme}, {"causal", causal}};
  return operation.formula
      .estimate(checked_parameters(operation, parameters), Inputs<double>(inputs), Recipe::exact)
      .at("out")
      .values;
}

/// Row order[i] of a is row i of b.
inline void require_rows(const Measured& a, const Order& order, const Measured& b) {
  for (std::size_t h = 0; h < kHeads; ++h)
    for (std::size_t i = 0; i < order.size(); ++i)
      for (std::size_t lane = 0; lane < kWidth; ++lane)
        require_meet(a.range(h, order[i], lane), b.range(h, i, lane),
                     "out of token " + std::to_string(order[i]));
}

std::vector<Law> laws_of_layers();
std::vector<Law> laws_of_schemes();
std::vector<Law> laws_of_state();

}  // namespace posproof::properties::attention
