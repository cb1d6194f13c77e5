#pragma once

#include <cmath>

#include "implementations/plain/given.hpp"
#include "implementations/plain/inputs.hpp"

namespace posproof::plain::rope {

inline const Keys kFrequencyKeys{
    "head_dim", "rotary_dim",  "partial_rotary_factor", "rope_theta", "max_position_embeddings",
    "seq_len",  "rope_scaling"};
inline const Keys kRotationKeys{"layout", "inverse"};

/// What decides the angles.
struct Frequencies {
  std::size_t head_dim;
  std::size_t pairs;
  double theta;
  double factor = 1;  ///< of linear scaling

  explicit Frequencies(const Given& given)
      : head_dim(static_cast<std::size_t>(given.integer_at_least(1, "head_dim"))),
        theta(given.positive("rope_theta", 10000)) {
    if (given.has("max_position_embeddings")) given.integer_at_least(1, "max_position_embeddings");
    if (given.has("seq_len")) given.integer_at_least(1, "seq_len");
    pairs = rotary_dim(given) / 2;
    read_scaling(Given(
        given.object("rope_scaling"),
        {"rope_type", "factor", "original_max_position_embeddings", "attention_factor", "beta_fast",
         "beta_slow", "mscale", "mscale_all_dim", "truncate", "short_factor", "long_factor",
         "low_freq_factor", "high_freq_factor", "mrope_section", "mrope_interleaved"}));
  }

 private:
  std::size_t rotary_dim(const Given& given) const {
    auto dim = static_cast<std::int64_t>(head_dim);
    if (given.has("partial_rotary_factor")) {
      const double part = given.positive("partial_rotary_factor");
      if (part > 1) throw Refused("partial_rotary_factor: a number ≤ 1 expected");
      dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * part);
      if (given.integer("rotary_dim", dim) != dim) {
        throw Refused("rotary_dim and partial_rotary_factor disagree: the factor makes it " +
                      std::to_string(dim));
      }
    }
    dim = given.integer("rotary_dim", dim);
    if (dim < 2 || dim % 2 != 0 || dim > static_cast<std::int64_t>(head_dim)) {
      throw Refused("rotary_dim: an even number from 2 to head_dim = " + std::to_string(head_dim) +
                    " expected, got " + std::to_string(dim));
    }
    return static_cast<std::size_t>(dim);
  }

  void read_scaling(const Given& scaling) {
    for (const char* key : {"factor", "beta_fast", "beta_slow"}) {
      if (scaling.has(key)) scaling.positive(key);
    }
    if (scaling.has("mrope_section") || scaling.flag("mrope_interleaved", false)) {
      throw Refused("mrope_section: plain has no M-RoPE");
    }
    // attention_factor is not read: it is 1 by definition of both types.
    const std::string type = scaling.text("rope_type", "default");
    if (type == "linear") {
      factor = scaling.positive("factor");
    } else if (type != "default") {
      throw Refused("unknown rope_type " + type + ": default or linear expected");
    }
  }
};

/// theta^(-2i/r) / factor (Su et al. 2021, section 3.2.2), 1/pow as every framework writes it.
template <class Phase>
std::vector<Phase> inv_freq(const Frequencies& frequencies) {
  std::vector<Phase> omega(frequencies.pairs);
  const auto rotary_dim = static_cast<Phase>(2 * frequencies.pairs);
  for (std::size_t i = 0; i < omega.size(); ++i) {
    const Phase exponent = static_cast<Phase>(2 * i) / rotary_dim;
    omega[i] = 1 / std::pow(static_cast<Phase>(frequencies.theta), exponent);
    omega[i] /= static_cast<Phase>(frequencies.factor);
  }
  return omega;
}

template <class Phase>
struct Table {
  std::vector<Phase> cos, sin;  ///< [positions, pairs]
};

template <class Phase>
Table<Phase> table(const Frequencies& frequencies, const std::vector<std::int64_t>& at) {
  const std::vector<Phase> omega = inv_freq<Phase>(frequencies);
  Table<Phase> result;
  for (const std::int64_t position : at) {
    for (const Phase frequency : omega) {
      const Phase angle = static_cast<Phase>(position) * frequency;
      result.cos.push_back(std::cos(angle));
      result.sin.push_back(std::sin(angle));
    }
  }
  return result;
}

/// Which lanes form a pair, and which way they turn.
struct Rotation {
  bool interleaved;
  bool inverse;

  explicit Rotation(const Given& given)
      : interleaved(given.choice("layout", {"half", "interleaved"}) == "interleaved"),
        inverse(given.flag("inverse", false)) {}

  /// Turns the pairs of one head in place: (x1 cos - x2 sin, x1 sin + x2 cos).
  template <class C, class T>
  void turn(C* lanes, const T* cos, const T* sin, std::size_t pairs) const {
    for (std::size_t i = 0; i < pairs; ++i) {
      C& first = lanes[interleaved ? 2 * i : i];
      C& second = lanes[interleaved ? 2 * i + 1 : i + pairs];
      const C c = static_cast<C>(cos[i]);
      const C s = inverse ? -static_cast<C>(sin[i]) : static_cast<C>(sin[i]);
      const C x1 = first, x2 = second;
      first = x1 * c - x2 * s;
      second = x1 * s + x2 * c;
    }
  }

  /// x [..., H, D] with a row of the table for every [H, D]; lanes past the pairs keep their bits.
  template <class C, class T>
  Tensor turned(const Tensor& x, const Table<T>& table, std::size_t pairs) const {
    const std::size_t heads = x.shape()[x.rank() - 2], width = x.shape()[x.rank() - 1];
    Tensor y = x;
    std::vector<C> lanes(2 * pairs);
    for (std::size_t row = 0; width != 0 && row < x.size() / width; ++row) {
      const std::size_t token = row / heads;
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        lanes[lane] = static_cast<C>(x.value(row * width + lane));
      }
      turn(lanes.data(), table.cos.data() + token * pairs, table.sin.data() + token * pairs, pairs);
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        y.set(row * width + lane, static_cast<double>(lanes[lane]));
      }
    }
    return y;
  }
};

/// The axes of x before [H, D]: [T], or [B, T].
inline Shape token_axes(const Tensor& x) { return {x.shape().begin(), x.shape().end() - 2}; }

template <class Phase>
Tensors frequency_list(const nlohmann::json& parameters, const Tensors&) {
  const Given given(parameters, joined(kFrequencyKeys, {"dtype"}));
  const std::vector<Phase> omega = inv_freq<Phase>(Frequencies(given));
  const Dtype dtype = given.output_dtype();
  return {{"inv_freq", rounded(dtype, {omega.size()}, omega)},
          {"attention_factor", Tensor(dtype, {}, {1.0})}};
}

template <class Phase>
Tensors cos_sin(const nlohmann::json& parameters, const Tensors& inputs) {
  const Given given(parameters, joined(kFrequencyKeys, {"dtype"}));
  const Frequencies frequencies(given);
  const Dtype dtype = given.output_dtype();
  const std::vector<std::int64_t> at = positions(inputs, "positions");
  const Table<Phase> both = table<Phase>(frequencies, at);
  const Shape shape{at.size(), frequencies.pairs};
  return {{"cos", rounded(dtype, shape, both.cos)}, {"sin", rounded(dtype, shape, both.sin)}};
}

template <class Phase>
Tensors apply(const nlohmann::json& parameters, const Tensors& inputs) {
  const Given given(parameters, joined(kFrequencyKeys, kRotationKeys));
  const Frequencies frequencies(given);
  const Rotation rotation(given);
  const Tensor& x = floats(inputs, "x", 3, 4);
  Shape shape = token_axes(x);
  require_shape("positions", input(inputs, "positions"), shape);
  const std::vector<std::int64_t> at = integers(inputs, "positions", kPositionLimit);
  shape.insert(shape.end(), {x.shape()[x.rank() - 2], frequencies.head_dim});
  require_shape("x", x, shape);

  const Table<Phase> both = table<Phase>(frequencies, at);
  return in_compute_type<Phase>({&x}, [&]<class C>(std::type_identity<C>) {
    return Tensors{{"y", rotation.turned<C>(x, both, frequencies.pairs)}};
  });
}

template <class Phase>
Tensors rotate(const nlohmann::json& parameters, const Tensors& inputs) {
  const Rotation rotation(Given(parameters, kRotationKeys));
  const Tensor& x = floats(inputs, "x", 3, 4);
  const Tensor& cos = floats(inputs, "cos", x.rank() - 1);
  const Tensor& sin = floats(inputs, "sin", x.rank() - 1);
  const std::size_t pairs = cos.shape().back();
  if (2 * pairs > x.shape().back()) {
    throw Refused("cos: " + std::to_string(pairs) + " pairs do not fit a head of " +
                  std::to_string(x.shape().back()) + " lanes");
  }
  Shape shape = token_axes(x);
  shape.push_back(pairs);
  require_shape("cos", cos, shape);
  require_shape("sin", sin, shape);

  return in_compute_type<Phase>({&x, &cos, &sin}, [&]<class C>(std::type_identity<C>) {
    const Table<C> both{widened<C>(cos), widened<C>(sin)};
    return Tensors{{"y", rotation.turned<C>(x, both, pairs)}};
  });
}

}  // namespace posproof::plain::rope
