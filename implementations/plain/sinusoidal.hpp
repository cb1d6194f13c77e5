#pragma once

#include <cmath>

#include "implementations/plain/given.hpp"
#include "implementations/plain/inputs.hpp"

namespace posproof::plain::sinusoidal {

/// base^(-i/(d/2)) (Vaswani et al. 2017, section 3.5) or, for half_minus_one, base^(-i/(P-1))
/// (tensor2tensor, whose P is floor(d/2)).
template <class Phase>
std::vector<Phase> frequencies(std::int64_t d_model, double base, bool half_minus_one) {
  const auto pairs = static_cast<std::size_t>(d_model / 2);
  const Phase denominator =
      half_minus_one ? static_cast<Phase>(d_model / 2 - 1) : static_cast<Phase>(d_model) / 2;
  std::vector<Phase> omega(pairs, 1);
  for (std::size_t i = 1; i < pairs; ++i) {  // omega_0 is 1, also where P - 1 is 0
    omega[i] = 1 / std::pow(static_cast<Phase>(base), static_cast<Phase>(i) / denominator);
  }
  return omega;
}

template <class Phase>
Tensors table(const nlohmann::json& parameters, const Tensors& inputs) {
  const Given given(parameters,
                    {"d_model", "base", "layout", "denominator", "odd", "scale", "dtype"});
  const std::int64_t d_model = given.integer_at_least(1, "d_model");
  const double base = given.positive("base", 10000);
  const std::string layout = given.choice("layout", {"interleaved", "concat", "concat_cos_first"});
  const std::string denominator = given.choice("denominator", {"half", "half_minus_one"});
  const std::string odd = given.choice("odd", {"refuse", "zero_pad"});
  const auto scale = static_cast<Phase>(given.number("scale", 1));
  const Dtype dtype = given.output_dtype();
  if (d_model % 2 != 0 && odd == "refuse") {
    throw Refused("d_model: an even number expected, got " + std::to_string(d_model));
  }
  const std::vector<std::int64_t> at = positions(inputs, "positions");
  const std::vector<Phase> omega =
      frequencies<Phase>(d_model, base, denominator == "half_minus_one");

  const auto width = static_cast<std::size_t>(d_model);
  const std::size_t pairs = omega.size();
  std::vector<Phase> rows(at.size() * width, 0);
  for (std::size_t l = 0; l < at.size(); ++l) {
    Phase* row = rows.data() + l * width;
    for (std::size_t i = 0; i < pairs; ++i) {
      const Phase angle = static_cast<Phase>(at[l]) * omega[i];
      std::size_t sin_lane = 2 * i, cos_lane = 2 * i + 1;
      if (layout == "concat") sin_lane = i, cos_lane = pairs + i;
      if (layout == "concat_cos_first") sin_lane = pairs + i, cos_lane = i;
      row[sin_lane] = scale * std::sin(angle);
      row[cos_lane] = scale * std::cos(angle);
    }
  }
  return {{"table", rounded(dtype, {at.size(), width}, rows)}};
}

}  // namespace posproof::plain::sinusoidal
