#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "reference/core/parameters.hpp"
#include "reference/core/tensor.hpp"

namespace posproof::plain {

inline const Tensor& input(const Tensors& inputs, const std::string& name) {
  const auto found = inputs.find(name);
  if (found == inputs.end()) throw Refused("input " + name + " is missing");
  return found->second;
}

inline void require_shape(const std::string& name, const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() != shape) {
    throw Refused(name + ": shape " + to_string(shape) + " expected, got " +
                  to_string(tensor.shape()));
  }
}

inline const Tensor& floats(const Tensors& inputs, const std::string& name, std::size_t rank,
                            std::size_t batched_rank = 0) {
  const Tensor& tensor = input(inputs, name);
  if (!is_float(tensor.dtype())) throw Refused(name + ": a float tensor expected");
  if (tensor.rank() != rank && (batched_rank == 0 || tensor.rank() != batched_rank)) {
    throw Refused(name + ": rank " + std::to_string(rank) + " expected, got shape " +
                  to_string(tensor.shape()));
  }
  return tensor;
}

/// The integers of a tensor, each in (-limit, limit).
inline std::vector<std::int64_t> integers(const Tensors& inputs, const std::string& name,
                                          std::int64_t limit) {
  const Tensor& tensor = input(inputs, name);
  if (is_float(tensor.dtype())) throw Refused(name + ": an integer tensor expected");
  std::vector<std::int64_t> values(tensor.size());
  for (std::size_t n = 0; n < values.size(); ++n) {
    values[n] = tensor.integer(n);
    if (values[n] <= -limit || values[n] >= limit) {
      throw Refused(name + ": " + std::to_string(values[n]) + " is outside (-" +
                    std::to_string(limit) + ", " + std::to_string(limit) + ")");
    }
  }
  return values;
}

inline constexpr std::int64_t kPositionLimit = std::int64_t{1} << 31;

/// Kept in int64: in a narrower type the difference of two positions would overflow.
inline std::vector<std::int64_t> positions(const Tensors& inputs, const std::string& name) {
  if (input(inputs, name).rank() != 1) {
    throw Refused(name + ": rank 1 expected, got shape " + to_string(input(inputs, name).shape()));
  }
  return integers(inputs, name, kPositionLimit);
}

template <class Number>
std::vector<Number> widened(const Tensor& tensor) {
  std::vector<Number> numbers(tensor.size());
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    numbers[n] = static_cast<Number>(tensor.value(n));
  }
  return numbers;
}

template <class Number>
Tensor rounded(Dtype dtype, const Shape& shape, const std::vector<Number>& numbers) {
  Tensor tensor(dtype, shape);
  for (std::size_t n = 0; n < numbers.size(); ++n) tensor.set(n, static_cast<double>(numbers[n]));
  return tensor;
}

/// Bits, not values: a double would quieten a signalling NaN.
inline void copy_elements(Tensor& to, std::size_t to_first, const Tensor& from,
                          std::size_t from_first, std::size_t count) {
  const std::size_t size = byte_size(from.dtype());
  if (count == 0) return;
  std::memcpy(static_cast<char*>(to.bytes()) + to_first * size,
              static_cast<const char*>(from.bytes()) + from_first * size, count * size);
}

/// Calls body with the type to multiply and add in: float, or double when the phase or any input
/// is, because an operation has to be as exact as its inputs even where its angles are float.
template <class Phase, class Body>
auto in_compute_type(const std::vector<const Tensor*>& inputs, Body body) {
  if constexpr (std::is_same_v<Phase, float>) {
    bool is_narrow = true;
    for (const Tensor* tensor : inputs) is_narrow = is_narrow && tensor->dtype() != Dtype::f64;
    if (is_narrow) return body(std::type_identity<float>{});
  }
  return body(std::type_identity<double>{});
}

template <class Number>
Number dot(const Number* a, const Number* b, std::size_t count) {
  Number sum = 0;
  for (std::size_t n = 0; n < count; ++n) sum += a[n] * b[n];
  return sum;
}

}  // namespace posproof::plain
