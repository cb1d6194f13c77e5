#pragma once

#include <boost/multiprecision/cpp_int.hpp>

#include "reference/core/operation.hpp"

namespace posproof::reference::t5 {

/// Buckets of one direction: exact up to half of them, logarithmic from there to max_distance.
struct Buckets {
  std::int64_t per_direction, max_exact, max_distance;
};

inline Buckets buckets(const Parameters& p) {
  const std::int64_t per_direction =
      p.flag("bidirectional") ? p.integer("num_buckets") / 2 : p.integer("num_buckets");
  return {per_direction, per_direction / 2, p.integer("max_distance")};
}

/// max_exact + floor(ln(n/e)/ln(M/e)·m) for n ≥ e = max_exact, with m = per_direction − e, decided
/// by integers: the floor is at least t exactly when n^m ≥ M^t·e^(m−t). At most per_direction − 1.
inline std::int64_t logarithmic_bucket(const Buckets& b, std::int64_t n) {
  using boost::multiprecision::cpp_int;
  using boost::multiprecision::pow;
  if (n >= b.max_distance) return b.per_direction - 1;
  const auto m = static_cast<unsigned>(b.per_direction - b.max_exact);
  const cpp_int power = pow(cpp_int(n), m);
  unsigned t = 0;
  while (t + 1 < m &&
         power >= pow(cpp_int(b.max_distance), t + 1) * pow(cpp_int(b.max_exact), m - t - 1))
    ++t;
  return b.max_exact + t;
}

/// Raffel et al. 2019, section 2.1, and mesh-tensorflow's _relative_position_bucket, with
/// relative = memory − query: forward offsets take the upper half when bidirectional, bucket 0 when
/// not.
inline std::int64_t bucket(const Parameters& p, std::int64_t relative) {
  const Buckets b = buckets(p);
  std::int64_t base = 0, n = -relative;
  if (p.flag("bidirectional")) {
    if (relative > 0) base = b.per_direction;
    n = std::abs(relative);
  } else if (n < 0) {
    n = 0;
  }
  return base + (n < b.max_exact ? n : logarithmic_bucket(b, n));
}

struct Bucket {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>& in, Recipe) const {
    Output<R> output;
    output.is_integer = true;
    output.integers = in.integers("relative_positions");
    for (std::int64_t& entry : output.integers) entry = bucket(p, entry);
    return {{"buckets", output}};
  }
};

/// bias[h,i,j] = table[bucket(k_j − q_i), h], bit for bit.
struct Bias {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>& in, Recipe) const {
    const auto& q_positions = in.integers("q_positions");
    const auto& k_positions = in.integers("k_positions");
    const auto& table = in.real("table");
    const std::size_t heads = table.shape(1), queries = q_positions.size(),
                      keys = k_positions.size();
    Output<R> bias({heads, queries, keys});
    for (std::size_t i = 0; i < queries; ++i)
      for (std::size_t j = 0; j < keys; ++j) {
        const auto row = static_cast<std::size_t>(bucket(p, k_positions(j) - q_positions(i)));
        for (std::size_t h = 0; h < heads; ++h)
          bias.copy((h * queries + i) * keys + j, "table", table, row * heads + h);
      }
    return {{"bias", bias}};
  }
};

}  // namespace posproof::reference::t5
