#pragma once

#include <Eigen/Dense>
#include <algorithm>

#include "reference/core/operation.hpp"

namespace posproof::reference::shaw {

template <class R>
using Vector = Eigen::Matrix<R, Eigen::Dynamic, 1>;

/// clip(j − i, −k, k) + k (Shaw et al. 2018, section 3.2); the sign of j − i turned for `q-k`.
inline std::size_t row_of(const Parameters& p, std::int64_t q_position, std::int64_t k_position) {
  const std::int64_t k = p.integer("max_distance");
  const std::int64_t distance =
      p.text("sign") == "k-q" ? k_position - q_position : q_position - k_position;
  return static_cast<std::size_t>(std::clamp(distance, -k, k) + k);
}

/// logits[h,i,j] = q[h,i]·a^K_{w(i,j)}: the second term of eq. 4, unscaled.
struct KeyLogits {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>& in, Recipe) const {
    const auto& q = in.real("q");
    const auto& keys = in.real("relative_keys");
    const auto& q_positions = in.integers("q_positions");
    const auto& k_positions = in.integers("k_positions");
    const std::size_t heads = q.shape(0), queries = q.shape(1), width = q.shape(2);
    Output<R> logits({heads, queries, k_positions.size()});
    // Offsets share rows, so each query meets each row once.
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < queries; ++i) {
        const Eigen::Map<const Vector<R>> query(&q(h, i, 0), static_cast<Eigen::Index>(width));
        std::map<std::size_t, R> of_row;
        for (std::size_t j = 0; j < k_positions.size(); ++j) {
          const std::size_t row = row_of(p, q_positions(i), k_positions(j));
          if (!of_row.count(row))
            of_row[row] = query.dot(
                Eigen::Map<const Vector<R>>(&keys(row, 0), static_cast<Eigen::Index>(width)));
          logits.values(h, i, j) = of_row[row];
        }
      }
    return {{"logits", logits}};
  }
};

/// out[h,i] = Σ_j weights[h,i,j]·a^V_{w(i,j)}: the second term of eq. 3.
struct ValueTerm {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>& in, Recipe) const {
    const auto& weights = in.real("weights");
    const auto& values = in.real("relative_values");
    const auto& q_positions = in.integers("q_positions");
    const auto& k_positions = in.integers("k_positions");
    const std::size_t heads = weights.shape(0), queries = weights.shape(1), width = values.shape(1);
    Output<R> out({heads, queries, width});
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < queries; ++i)
        for (std::size_t j = 0; j < k_positions.size(); ++j) {
          const std::size_t row = row_of(p, q_positions(i), k_positions(j));
          for (std::size_t lane = 0; lane < width; ++lane)
            out.values(h, i, lane) += R(weights(h, i, j) * values(row, lane));
        }
    return {{"out", out}};
  }
};

}  // namespace posproof::reference::shaw
