#pragma once

#include <algorithm>

#include "reference/core/operation.hpp"

namespace posproof::reference::alibi {

/// slope = 2^(−bias_max·multiple/denominator).
struct Exponent {
  double multiple, denominator;
};

/// Head h counts from 0. `geometric`: 2^(−bias_max·(h+1)/n) for any n (Press et al. 2021, section
/// 3). `press`: that for the largest power of two c ≤ n, then every other slope of 2c heads (the
/// authors' code, fairseq/models/transformer.py).
inline Exponent exponent(const Parameters& p, std::int64_t h) {
  const std::int64_t n = p.integer("num_heads");
  std::int64_t c = 1;
  while (2 * c <= n) c *= 2;
  if (p.text("rule") == "geometric") return {static_cast<double>(h + 1), static_cast<double>(n)};
  return h < c ? Exponent{static_cast<double>(h + 1), static_cast<double>(c)}
               : Exponent{static_cast<double>(2 * (h - c) + 1), static_cast<double>(2 * c)};
}

/// bias_max·multiple has up to 70 bits: exact in R, not in double.
template <class R>
R slope(const Parameters& p, std::int64_t h) {
  const auto [multiple, denominator] = exponent(p, h);
  const R numerator = R(-p.number("bias_max")) * R(multiple);
  const double quotient = std::round(estimate(numerator) / denominator);
  const bool is_whole = numerator == R(quotient) * R(denominator);
  return power_of_two(numerator, R(denominator), is_whole ? quotient : 0.5);
}

inline std::int64_t head_offset(const Parameters& p) { return p.integer("head_offset"); }

inline std::int64_t local_heads(const Parameters& p) {
  return p.has("local_heads") ? p.integer("local_heads") : p.integer("num_heads") - head_offset(p);
}

/// What the slope multiplies: j − i when causal, −|i − j| when not; j for `key`.
inline double multiplier(const Parameters& p, std::int64_t i, std::int64_t j) {
  if (p.text("form") == "key") return static_cast<double>(j);
  return static_cast<double>(p.flag("causal") ? j - i : -std::abs(i - j));
}

struct Slopes {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>&, Recipe) const {
    Output<R> slopes({static_cast<std::size_t>(p.integer("num_heads"))});
    for (std::size_t h = 0; h < slopes.values.size(); ++h)
      slopes.values(h) = slope<R>(p, static_cast<std::int64_t>(h));
    return {{"slopes", slopes}};
  }
};

/// bias[h,i,j] = slope_h·(j − i) (Press et al. 2021, section 3). It never masks.
struct Bias {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>& in, Recipe) const {
    const auto& q_positions = in.integers("q_positions");
    const auto& k_positions = in.integers("k_positions");
    const auto heads = static_cast<std::size_t>(local_heads(p));
    Output<R> bias({heads, q_positions.size(), k_positions.size()});
    for (std::size_t h = 0; h < heads; ++h) {
      const R m = slope<R>(p, head_offset(p) + static_cast<std::int64_t>(h));
      for (std::size_t i = 0; i < q_positions.size(); ++i)
        for (std::size_t j = 0; j < k_positions.size(); ++j)
          bias.values(h, i, j) = m * R(multiplier(p, q_positions(i), k_positions(j)));
    }
    return {{"bias", bias}};
  }
};

}  // namespace posproof::reference::alibi
