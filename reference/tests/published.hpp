#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "reference/core/registry.hpp"
#include "reference/core/truth.hpp"

namespace posproof {

/// A published decimal and half a unit of its last digit: "9.3057e-01" is 0.93057 ± 0.000005.
struct Published {
  double value, half_unit;
};

inline Published published(const std::string& decimal) {
  const auto exponent_at = decimal.find('e');
  const std::string digits = decimal.substr(0, exponent_at);
  const auto point = digits.find('.');
  const int places = point == std::string::npos ? 0 : static_cast<int>(digits.size() - point) - 1;
  const int exponent =
      exponent_at == std::string::npos ? 0 : std::atoi(decimal.c_str() + exponent_at + 1);
  return {std::strtod(decimal.c_str(), nullptr), 0.5 * std::pow(10.0, exponent - places)};
}

/// The true value rounds to the published digits. `units`: how far beyond half a unit of the last
/// digit a number may lie that was cut instead of rounded, or that f32 arithmetic produced.
inline ::testing::AssertionResult agrees(double value, const std::string& decimal,
                                         double units = 0) {
  const Published given = published(decimal);
  // The decimal and its unit are themselves doubles.
  const double slack = 2 * std::fabs(given.value) * 0x1p-52 + 1e-9 * given.half_unit;
  const double allowed = (1 + 2 * units) * given.half_unit + slack;
  if (std::fabs(value - given.value) <= allowed) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "got " << ::testing::PrintToString(value) << ", published is " << decimal;
}

inline ::testing::AssertionResult agree(const std::vector<double>& values,
                                        const std::vector<std::string>& decimals,
                                        double units = 0) {
  if (values.size() != decimals.size() || decimals.empty())
    return ::testing::AssertionFailure()
           << values.size() << " values, " << decimals.size() << " published";
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto result = agrees(values[i], decimals[i], units);
    if (!result) return ::testing::AssertionFailure() << "[" << i << "] " << result.message();
  }
  return ::testing::AssertionSuccess();
}

/// The f64 nearest to the true value of one output.
inline std::vector<double> exact(const std::string& operation, const nlohmann::json& parameters,
                                 const Tensors& inputs, const std::string& output,
                                 Recipe recipe = Recipe::exact) {
  const Operation& found = find_operation(operation);
  return truth_of(found, checked_parameters(found, parameters), inputs, recipe)
      .at(output)
      .exact.values();
}

/// The same, rounded once into the output type.
inline std::vector<double> rounded(const std::string& operation, const nlohmann::json& parameters,
                                   const Tensors& inputs, const std::string& output) {
  const Operation& found = find_operation(operation);
  return truth_of(found, checked_parameters(found, parameters), inputs).at(output).rounded.values();
}

inline Tensor at(const std::vector<std::int64_t>& positions) {
  return Tensor::integers({positions.size()}, positions);
}

}  // namespace posproof
