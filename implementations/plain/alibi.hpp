#pragma once

#include <cmath>
#include <cstdlib>

#include "implementations/plain/given.hpp"
#include "implementations/plain/inputs.hpp"

namespace posproof::plain::alibi {

inline const Keys kSlopeKeys{"num_heads", "rule", "bias_max"};
inline const Keys kBiasKeys{"causal", "form", "head_offset", "local_heads"};

/// Press et al. 2022: 2^(-8/n), 2^(-16/n), … for n a power of two. The authors' code gives other
/// head counts the slopes of the power of two below, then every other slope of the one above;
/// `geometric` applies the paper's sentence to any n. Always double: there is no angle here, and
/// Python code has it in double too.
inline std::vector<double> slopes(const Given& given) {
  const std::int64_t heads = given.integer_at_least(1, "num_heads");
  const bool is_press = given.choice("rule", {"press", "geometric"}) == "press";
  const double bias_max = given.number("bias_max", 8);

  std::int64_t regular = 1;  // heads that follow the plain sequence
  while (2 * regular <= heads) regular *= 2;
  if (!is_press) regular = heads;
  std::vector<double> result;
  result.reserve(static_cast<std::size_t>(heads));  // throws at once for an absurd count
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t step = h < regular ? h + 1 : 2 * (h - regular) + 1;
    const std::int64_t steps = h < regular ? regular : 2 * regular;
    result.push_back(std::exp2(-bias_max * static_cast<double>(step) / static_cast<double>(steps)));
  }
  return result;
}

/// The bias of the heads of one shard.
struct Bias {
  std::vector<double> local_slopes;
  bool causal;
  bool by_key;

  explicit Bias(const Given& given)
      : causal(given.flag("causal", true)),
        by_key(given.choice("form", {"distance", "key"}) == "key") {
    const std::vector<double> all = slopes(given);
    const auto heads = static_cast<std::int64_t>(all.size());
    const std::int64_t offset = given.integer("head_offset", 0);
    if (offset < 0 || offset >= heads) {
      throw Refused("head_offset: 0 to " + std::to_string(heads - 1) + " expected, got " +
                    std::to_string(offset));
    }
    const std::int64_t count = given.integer_at_least(1, "local_heads", heads - offset);
    if (count > heads - offset) {
      throw Refused("local_heads: at most " + std::to_string(heads - offset) + " expected, got " +
                    std::to_string(count));
    }
    local_slopes.assign(all.begin() + offset, all.begin() + offset + count);
  }

  double operator()(std::size_t head, std::int64_t q_position, std::int64_t k_position) const {
    const std::int64_t distance = k_position - q_position;
    const std::int64_t steps = by_key ? k_position : causal ? distance : -std::abs(distance);
    return local_slopes[head] * static_cast<double>(steps);
  }
};

inline Tensors slope_list(const nlohmann::json& parameters, const Tensors&) {
  const Given given(parameters, joined(kSlopeKeys, {"dtype"}));
  const std::vector<double> all = slopes(given);
  return {{"slopes", rounded(given.output_dtype(), {all.size()}, all)}};
}

inline Tensors bias(const nlohmann::json& parameters, const Tensors& inputs) {
  const Given given(parameters, joined(joined(kSlopeKeys, kBiasKeys), {"dtype"}));
  const Bias bias_of(given);
  const std::vector<std::int64_t> q_at = positions(inputs, "q_positions");
  const std::vector<std::int64_t> k_at = positions(inputs, "k_positions");
  const std::size_t heads = bias_of.local_slopes.size();
  std::vector<double> values;
  values.reserve(heads * q_at.size() * k_at.size());
  for (std::size_t h = 0; h < heads; ++h) {
    for (const std::int64_t q_position : q_at) {
      for (const std::int64_t k_position : k_at) {
        values.push_back(bias_of(h, q_position, k_position));
      }
    }
  }
  return {{"bias", rounded(given.output_dtype(), {heads, q_at.size(), k_at.size()}, values)}};
}

}  // namespace posproof::plain::alibi
