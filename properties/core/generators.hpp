#pragma once

#include <rapidcheck.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "reference/core/tensor.hpp"

namespace posproof {

/// How RapidCheck prints a counterexample: f32[2,3]{0, 0.5, 1, -0x1p-149, …}
void showValue(const Tensor& tensor, std::ostream& stream);
void showValue(Dtype dtype, std::ostream& stream);

}  // namespace posproof

namespace nlohmann {

/// In compact form; RapidCheck would take it for one of the types that it converts to.
inline void showValue(const json& value, std::ostream& stream) { stream << value.dump(); }

}  // namespace nlohmann

namespace posproof::properties {

/// Unlike rc::gen::inRange, as wide in the first experiment as in the last. Both ends included;
/// shrinks towards the lower.
rc::Gen<std::int64_t> between(std::int64_t low, std::int64_t high);
rc::Gen<std::size_t> count_between(std::size_t low, std::size_t high);

/// Shrinks towards the first.
template <class T>
rc::Gen<T> one_of(std::vector<T> choices) {
  const auto last = choices.size() - 1;
  return rc::gen::map(count_between(0, last),
                      [choices = std::move(choices)](std::size_t i) { return choices[i]; });
}

/// Numbers of the type below 2^exponent in magnitude: most within a factor of 256 of it, some with
/// any exponent down to subnormals, all with a uniform sign and significand; 0, −0, ±1, powers of
/// two and their neighbours more often than chance has them. Shrink towards 0 and 1.
rc::Gen<double> floats(Dtype dtype, int exponent);
rc::Gen<Tensor> tensors(Dtype dtype, Shape shape, int exponent = 2);
/// The same with NaN and infinities among them: for lanes that are only copied.
rc::Gen<Tensor> tensors_of_any_bits(Dtype dtype, Shape shape);

/// −limit … limit: small ones, 2^k and 2^k ± 1, the ends of contexts, multiples of π (numerators of
/// its convergents) and of π/2 over the frequencies in use, anything. Shrink towards 0.
rc::Gen<std::int64_t> positions(std::int64_t limit);
rc::Gen<std::vector<std::int64_t>> position_lists(std::size_t count, std::int64_t limit);

/// Shrinks towards 0, 1, 2, ….
rc::Gen<std::vector<std::size_t>> permutations(std::size_t count);

/// 1, 2, 3, 8, 12, 20, 71: of powers of two and not.
rc::Gen<std::int64_t> head_counts();

/// An int64 vector.
Tensor integers(const std::vector<std::int64_t>& values);
/// The entries of one axis in another order: entry i is entry order[i] of `tensor`.
Tensor reordered(const Tensor& tensor, const std::vector<std::size_t>& order, std::size_t axis);

}  // namespace posproof::properties
