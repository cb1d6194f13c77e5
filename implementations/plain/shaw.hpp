#pragma once

#include <algorithm>

#include "implementations/plain/given.hpp"
#include "implementations/plain/inputs.hpp"

namespace posproof::plain::shaw {

/// Shaw et al. 2018, eq. 3: the row clip(j - i, -k, k) + k of a table of 2k + 1 rows.
struct Rows {
  std::int64_t max_distance;
  bool key_minus_query;

  explicit Rows(const Given& given)
      : max_distance(given.integer_at_least(0, "max_distance")),
        key_minus_query(given.choice("sign", {"k-q", "q-k"}) == "k-q") {}

  std::size_t operator()(std::int64_t q_position, std::int64_t k_position) const {
    const std::int64_t relative =
        key_minus_query ? k_position - q_position : q_position - k_position;
    return static_cast<std::size_t>(std::clamp(relative, -max_distance, max_distance) +
                                    max_distance);
  }

  void require_table(const std::string& name, const Tensor& table, std::size_t width) const {
    require_shape(name, table, {static_cast<std::size_t>(2 * max_distance + 1), width});
  }
};

inline const Keys kKeys{"max_distance", "sign"};

/// q_i · a^K_ij, the second term of eq. 4 before its division by sqrt(d).
template <class Phase>
Tensors key_logits(const nlohmann::json& parameters, const Tensors& inputs) {
  const Rows rows(Given(parameters, kKeys));
  const Tensor& q = floats(inputs, "q", 3);
  const Tensor& relative_keys = floats(inputs, "relative_keys", 2);
  const std::vector<std::int64_t> q_at = positions(inputs, "q_positions");
  const std::vector<std::int64_t> k_at = positions(inputs, "k_positions");
  const std::size_t heads = q.shape()[0], width = q.shape()[2];
  require_shape("q", q, {heads, q_at.size(), width});
  rows.require_table("relative_keys", relative_keys, width);

  return in_compute_type<Phase>({&q, &relative_keys}, [&]<class C>(std::type_identity<C>) {
    const std::vector<C> queries = widened<C>(q), keys = widened<C>(relative_keys);
    std::vector<C> logits;
    logits.reserve(heads * q_at.size() * k_at.size());
    for (std::size_t n = 0; n < heads * q_at.size(); ++n) {
      for (const std::int64_t k_position : k_at) {
        const std::size_t row = rows(q_at[n % q_at.size()], k_position);
        logits.push_back(dot(queries.data() + n * width, keys.data() + row * width, width));
      }
    }
    return Tensors{{"logits", rounded(q.dtype(), {heads, q_at.size(), k_at.size()}, logits)}};
  });
}

/// The sum over j of w_ij · a^V_ij, the second term of eq. 3's z_i.
template <class Phase>
Tensors value_term(const nlohmann::json& parameters, const Tensors& inputs) {
  const Rows rows(Given(parameters, kKeys));
  const Tensor& weights = floats(inputs, "weights", 3);
  const Tensor& relative_values = floats(inputs, "relative_values", 2);
  const std::vector<std::int64_t> q_at = positions(inputs, "q_positions");
  const std::vector<std::int64_t> k_at = positions(inputs, "k_positions");
  const std::size_t heads = weights.shape()[0], width = relative_values.shape()[1];
  require_shape("weights", weights, {heads, q_at.size(), k_at.size()});
  rows.require_table("relative_values", relative_values, width);

  return in_compute_type<Phase>({&weights, &relative_values}, [&]<class C>(std::type_identity<C>) {
    const std::vector<C> w = widened<C>(weights), values = widened<C>(relative_values);
    std::vector<C> out(heads * q_at.size() * width, 0);
    for (std::size_t n = 0; n < heads * q_at.size(); ++n) {
      for (std::size_t j = 0; j < k_at.size(); ++j) {
        const std::size_t row = rows(q_at[n % q_at.size()], k_at[j]);
        for (std::size_t lane = 0; lane < width; ++lane) {
          out[n * width + lane] += w[n * k_at.size() + j] * values[row * width + lane];
        }
      }
    }
    return Tensors{{"out", rounded(weights.dtype(), {heads, q_at.size(), width}, out)}};
  });
}

}  // namespace posproof::plain::shaw
