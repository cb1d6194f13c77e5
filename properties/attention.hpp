#pragma once

#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"

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
  return {{{"name", "t5"},
           {"parameters",
            {{"num_buckets", 8},
             {"max_distance", 20},
             {"bidirectional", *rc::gen::arbitrary<bool>()}}}},
          {{"table", separated_rows(dtype, 8, kHeads)}}};
}
inline Encoding nope(Dtype) { return {{{"name", "nope"}}}; }

inline Measured attended(Subject& subject, const Encoding& encoding, bool causal, Tensors inputs) {
  inputs.insert(encoding.tensors.begin(), encoding.tensors.end());
  return subject.measure("attention", {{"scheme", encoding.scheme}, {"causal", causal}}, inputs)
      .at("out");
}

}  // namespace posproof::properties::attention
