#pragma once

#include "reference/core/phase.hpp"

namespace posproof::reference::sinusoidal {

/// −log_base of the frequency of pair i: i/(d/2), or i/(P−1) where P = floor(d/2).
inline double exponent_denominator(const Parameters& p) {
  const auto d = static_cast<double>(p.integer("d_model"));
  return p.text("denominator") == "half" ? d / 2 : std::floor(d / 2) - 1;
}

/// ω_i = base^(−i/(d/2)) (Vaswani et al. 2017, section 3.5), or base^(−i/(P−1)) as tensor2tensor
/// has it, where ω_0 = 1 when there is one pair.
template <class R>
R frequency(const Parameters& p, std::size_t i) {
  if (i == 0) return R(1);
  return power(R(p.number("base")), R(R(-static_cast<double>(i)) / R(exponent_denominator(p))));
}

/// The columns of pair i that hold sin and cos.
struct Lanes {
  std::size_t sin, cos;
};
inline Lanes lanes(const Parameters& p, std::size_t i) {
  const std::size_t pairs = static_cast<std::size_t>(p.integer("d_model")) / 2;
  const std::string layout = p.text("layout");
  if (layout == "interleaved") return {2 * i, 2 * i + 1};
  if (layout == "concat") return {i, pairs + i};
  return {pairs + i, i};
}

/// PE(p, sin lane of i) = scale·sin(p·ω_i), PE(p, cos lane of i) = scale·cos(p·ω_i).
/// Vaswani et al. 2017, section 3.5. An odd d_model has a last column of zeros (tensor2tensor).
struct Table {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>& in, Recipe) const {
    const auto& positions = in.integers("positions");
    const auto d = static_cast<std::size_t>(p.integer("d_model"));
    const R scale(p.number("scale"));
    Output<R> table({positions.size(), d});
    for (std::size_t i = 0; i < d / 2; ++i) {
      const R omega = frequency<R>(p, i);
      for (std::size_t t = 0; t < positions.size(); ++t) {
        const SinCos<R> wave = sin_cos(R(R(static_cast<double>(positions(t))) * omega));
        table.values(t, lanes(p, i).sin) = scale * wave.sin;
        table.values(t, lanes(p, i).cos) = scale * wave.cos;
      }
    }
    return {{"table", table}};
  }
};

}  // namespace posproof::reference::sinusoidal
