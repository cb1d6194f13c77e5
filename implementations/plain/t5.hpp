#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "implementations/plain/given.hpp"
#include "implementations/plain/inputs.hpp"

namespace posproof::plain::t5 {

inline const Keys kKeys{"num_buckets", "max_distance", "bidirectional"};

/// Raffel et al. 2020, section 2.1, as in mesh-tensorflow's _relative_position_bucket: half of the
/// buckets for single distances, half for logarithmic ranges up to max_distance.
struct Buckets {
  std::int64_t count;
  std::int64_t max_distance;
  bool bidirectional;

  explicit Buckets(const Given& given)
      : count(given.integer_at_least(1, "num_buckets", 32)),
        max_distance(given.integer_at_least(1, "max_distance", 128)),
        bidirectional(given.flag("bidirectional", true)) {
    const std::int64_t exact = per_side() / 2;
    if (exact < 1 || max_distance <= exact) {
      throw Refused("max_distance: more than the " + std::to_string(exact) +
                    " single distances expected, at least 1, got " + std::to_string(max_distance));
    }
  }

  std::int64_t per_side() const { return bidirectional ? count / 2 : count; }

  /// relative = memory position - query position.
  std::int64_t operator()(std::int64_t relative) const {
    const std::int64_t buckets = per_side();
    const std::int64_t exact = buckets / 2;
    const std::int64_t first = bidirectional && relative > 0 ? buckets : 0;
    const std::int64_t distance =
        bidirectional ? std::abs(relative) : std::max<std::int64_t>(-relative, 0);
    if (distance < exact) return first + distance;
    const double ranges = static_cast<double>(buckets - exact);
    const double part = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                        std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
    const auto range = static_cast<std::int64_t>(part * ranges + kNudge);
    return first + std::min(exact + range, buckets - 1);
  }

 private:
  // The quotient of a distance that begins a range falls up to 1.4e-14 short of its integer, and
  // the nearest that begins none stays 7e-13 away; without the nudge (9 buckets, 128) has 8, 16 and
  // 64 wrong. Compared with integer powers, n^m >= e^(m-k) d^k: 2 to 65, 80, 96, 128, 160 and 256
  // buckets a side, every max_distance below 700 and powers of 2, 3 and 10 up to 2^31 (51921
  // configurations, both neighbours of every range's begin; every distance for 16 bucket counts
  // from 4 to 320 and 12 max_distances from 20 to 1024, both directions): none differs.
  static constexpr double kNudge = 1e-13;
};

inline Tensors bucket(const nlohmann::json& parameters, const Tensors& inputs) {
  const Buckets bucket_of(Given(parameters, kKeys));
  // The difference of two positions is below 2^32.
  const std::vector<std::int64_t> relative =
      integers(inputs, "relative_positions", 2 * kPositionLimit);
  Tensor buckets(Dtype::i64, input(inputs, "relative_positions").shape());
  for (std::size_t n = 0; n < relative.size(); ++n) {
    buckets.set_integer(n, bucket_of(relative[n]));
  }
  return {{"buckets", buckets}};
}

inline Tensors bias(const nlohmann::json& parameters, const Tensors& inputs) {
  const Buckets bucket_of(Given(parameters, kKeys));
  const std::vector<std::int64_t> q_at = positions(inputs, "q_positions");
  const std::vector<std::int64_t> k_at = positions(inputs, "k_positions");
  const Tensor& table = floats(inputs, "table", 2);
  const std::size_t heads = table.shape()[1];
  require_shape("table", table, {static_cast<std::size_t>(bucket_of.count), heads});

  Tensor result(table.dtype(), {heads, q_at.size(), k_at.size()});
  std::size_t at = 0;
  for (std::size_t h = 0; h < heads; ++h) {
    for (const std::int64_t q_position : q_at) {
      for (const std::int64_t k_position : k_at) {
        const auto row = static_cast<std::size_t>(bucket_of(k_position - q_position));
        copy_elements(result, at++, table, row * heads + h, 1);
      }
    }
  }
  return {{"bias", result}};
}

}  // namespace posproof::plain::t5
