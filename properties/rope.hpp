#pragma once

#include <Eigen/Dense>

#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"

namespace posproof::properties::rope {

using nlohmann::json;
using Matrix = Eigen::Matrix<Range, Eigen::Dynamic, Eigen::Dynamic>;
using Pair = Eigen::Matrix<Range, 2, 1>;
using Text = std::vector<std::string>;

/// Sums of two or three of these stay below 2^31.
inline constexpr std::int64_t kFar = std::int64_t{1} << 29;

struct Rotation {
  json parameters;
  std::size_t head_dim, pairs;
  bool interleaved;

  std::pair<std::size_t, std::size_t> lanes(std::size_t i) const {
    return interleaved ? std::pair{2 * i, 2 * i + 1} : std::pair{i, i + pairs};
  }
  Rotation with(const std::string& key, const json& value) const {
    Rotation other = *this;
    other.parameters[key] = value;
    other.interleaved = other.parameters["layout"] == "interleaved";
    return other;
  }
  json frequencies(Dtype dtype) const {
    json own = parameters;
    own.erase("layout");
    own["dtype"] = name(dtype);
    return own;
  }
  double factor() const {
    return parameters.value(json::json_pointer("/rope_scaling/factor"), 1.0);
  }
};

inline Rotation drawn_rotation() {
  const std::size_t pairs = *count_between(1, 5);
  Rotation rotation{{}, 2 * pairs + *one_of(std::vector<std::size_t>{0, 0, 1, 4}), pairs, false};
  rotation.parameters = {{"head_dim", rotation.head_dim},
                         {"rope_theta", *one_of(std::vector<double>{10000, 500000, 2, 1e6})}};
  if (2 * pairs < rotation.head_dim) rotation.parameters["rotary_dim"] = 2 * pairs;
  if (*between(0, 2) == 2)
    rotation.parameters["rope_scaling"] = {{"rope_type", "linear"},
                                           {"factor", *one_of(std::vector<double>{2, 4, 1.5, 10})}};
  return rotation.with("layout", *one_of(Text{"half", "interleaved"}));
}

/// rope.apply to x [T,1,D].
inline Measured applied(Subject& subject, const Rotation& rotation, const Tensor& x,
                        const std::vector<std::int64_t>& at) {
  return subject.measure("rope.apply", rotation.parameters, {{"x", x}, {"positions", integers(at)}})
      .at("y");
}

/// R(position) read off the unit vectors.
inline Matrix matrix_of(Subject& subject, const Rotation& rotation, Dtype dtype,
                        std::int64_t position) {
  const std::size_t d = rotation.head_dim;
  Tensor unit(dtype, {d, 1, d});
  for (std::size_t i = 0; i < d; ++i) unit.set(i * d + i, 1);
  const Measured y = applied(subject, rotation, unit, std::vector<std::int64_t>(d, position));
  Matrix turn(d, d);
  for (std::size_t row = 0; row < d; ++row)
    for (std::size_t column = 0; column < d; ++column) turn(row, column) = y.range(column, 0, row);
  return turn;
}

inline double radius_of_block(const Matrix& matrix, const Rotation& rotation) {
  const auto [first, second] = rotation.lanes(rotation.pairs - 1);
  return std::max(radius(matrix(first, first)), radius(matrix(first, second)));
}

inline void require_same(const Matrix& a, const Matrix& b, const std::string& what) {
  for (Eigen::Index i = 0; i < a.rows(); ++i)
    for (Eigen::Index j = 0; j < a.cols(); ++j)
      require_meet(a(i, j), b(i, j),
                   what + "[" + std::to_string(i) + "," + std::to_string(j) + "]");
}

inline Range dot(const Measured& y, std::size_t a, std::size_t b) {
  Range sum(0);
  for (std::size_t lane = 0; lane < y.got.shape()[2]; ++lane)
    sum += y.range(a, 0, lane) * y.range(b, 0, lane);
  return sum;
}

/// Of frequencies, tables and turns by a given table.
std::vector<Law> laws_of_tables();

}  // namespace posproof::properties::rope
