#pragma once

#include <Eigen/Dense>

#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"

namespace posproof::properties::sinusoidal {

using nlohmann::json;
using Pair = Eigen::Matrix<Range, 2, 1>;

/// Far enough for every context, near enough that p + k stays below 2^31.
inline constexpr std::int64_t kFar = std::int64_t{1} << 29;

struct Encoding {
  json parameters;
  std::size_t width;
  double scale;

  std::size_t pairs() const { return width / 2; }
};

inline Encoding drawn_encoding(Subject& subject) {
  const std::size_t width = *count_between(2, 24);
  const double scale = *one_of(std::vector<double>{1, 1, 0.5, 3});
  json parameters{
      {"d_model", width},
      {"base", *one_of(std::vector<double>{10000, 2, 100, 500000})},
      {"scale", scale},
      {"layout", *one_of(std::vector<std::string>{"interleaved", "concat", "concat_cos_first"})},
      {"dtype", name(subject.drawn_dtype())}};
  if (width >= 4)
    parameters["denominator"] = *one_of(std::vector<std::string>{"half", "half_minus_one"});
  if (width % 2 != 0) parameters["odd"] = "zero_pad";
  return {parameters, width, scale};
}

/// Rows of the table for these positions.
class Rows {
 public:
  Rows(Subject& subject, const Encoding& encoding, const std::vector<std::int64_t>& positions)
      : encoding_(encoding),
        table_(subject
                   .measure("sinusoidal.table", encoding.parameters,
                            {{"positions", integers(positions)}})
                   .at("table")) {}

  const Measured& table() const { return table_; }

  /// (sin, cos) of pair i, as section 3.5 has them.
  Pair pair(std::size_t row, std::size_t i) const {
    const std::string layout = encoding_.parameters["layout"];
    const std::size_t pairs = encoding_.pairs();
    std::size_t sin = 2 * i, cos = 2 * i + 1;
    if (layout == "concat") sin = i, cos = i + pairs;
    if (layout == "concat_cos_first") sin = i + pairs, cos = i;
    return {table_.range(row, sin), table_.range(row, cos)};
  }

  Range dot(std::size_t a, std::size_t b) const {
    Range sum(0);
    for (std::size_t lane = 0; lane < encoding_.width; ++lane)
      sum += table_.range(a, lane) * table_.range(b, lane);
    return sum;
  }

 private:
  Encoding encoding_;
  Measured table_;
};

inline std::string of_pair(std::size_t i) { return "pair " + std::to_string(i); }

/// Far beyond what a model was trained on.
std::vector<Law> laws_of_extrapolation();

}  // namespace posproof::properties::sinusoidal
