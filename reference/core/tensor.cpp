#include "reference/core/tensor.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace posproof {
namespace {

template <class T>
Tensor::Storage zeros(const Shape& shape) {
  return xt::xarray<T>(typename xt::xarray<T>::shape_type(shape.begin(), shape.end()), T{});
}

Tensor::Storage make_storage(Dtype dtype, const Shape& shape) {
  switch (dtype) {
    case Dtype::f64:
      return zeros<double>(shape);
    case Dtype::f32:
      return zeros<float>(shape);
    case Dtype::f16:
      return zeros<f16>(shape);
    case Dtype::bf16:
      return zeros<bf16>(shape);
    case Dtype::i64:
      return zeros<std::int64_t>(shape);
    default:
      return zeros<std::int32_t>(shape);
  }
}

}  // namespace

std::size_t element_count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t extent : shape) text += (text.size() > 1 ? "," : "") + std::to_string(extent);
  return text + "]";
}

std::vector<std::size_t> index_of(std::size_t flat, const Shape& shape) {
  std::vector<std::size_t> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; flat /= shape[axis])
    index[axis] = flat % shape[axis];
  return index;
}

Tensor::Tensor() : Tensor(Dtype::f64, Shape{0}) {}

Tensor::Tensor(Dtype dtype, Shape shape)
    : shape_(std::move(shape)), storage_(make_storage(dtype, shape_)) {}

Tensor::Tensor(Dtype dtype, Shape shape, const std::vector<double>& values)
    : Tensor(dtype, std::move(shape)) {
  if (values.size() != size())
    throw std::invalid_argument("a tensor of shape " + to_string(shape_) + " takes " +
                                std::to_string(size()) + " numbers, not " +
                                std::to_string(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) set(i, values[i]);
}

Tensor Tensor::integers(Shape shape, const std::vector<std::int64_t>& values, Dtype dtype) {
  Tensor tensor(dtype, std::move(shape));
  if (values.size() != tensor.size())
    throw std::invalid_argument("a tensor of shape " + to_string(tensor.shape_) + " takes " +
                                std::to_string(tensor.size()) + " numbers, not " +
                                std::to_string(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) tensor.set_integer(i, values[i]);
  return tensor;
}

Dtype Tensor::dtype() const { return static_cast<Dtype>(storage_.index()); }

double Tensor::value(std::size_t flat) const {
  return std::visit(
      [flat](const auto& array) -> double {
        using T = typename std::decay_t<decltype(array)>::value_type;
        if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
          return to_double(array.data()[flat]);
        else
          return static_cast<double>(array.data()[flat]);
      },
      storage_);
}

std::int64_t Tensor::integer(std::size_t flat) const {
  if (dtype() == Dtype::i64) return std::get<xt::xarray<std::int64_t>>(storage_).data()[flat];
  return std::get<xt::xarray<std::int32_t>>(storage_).data()[flat];
}

std::uint64_t Tensor::bits(std::size_t flat) const {
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(bytes()) + flat * byte_size(dtype()),
              byte_size(dtype()));
  return bits;
}

void Tensor::set(std::size_t flat, double value) {
  if (!is_float(dtype())) {
    if (value != std::floor(value) || std::fabs(value) > 9007199254740992.0)
      throw std::invalid_argument("an " + std::string(name(dtype())) +
                                  " tensor takes integers, not " + std::to_string(value));
    return set_integer(flat, static_cast<std::int64_t>(value));
  }
  std::visit(
      [flat, value](auto& array) {
        using T = typename std::decay_t<decltype(array)>::value_type;
        if constexpr (std::is_same_v<T, f16>)
          array.data()[flat] = to_f16(value);
        else if constexpr (std::is_same_v<T, bf16>)
          array.data()[flat] = to_bf16(value);
        else
          array.data()[flat] = static_cast<T>(value);
      },
      storage_);
}

void Tensor::set_integer(std::size_t flat, std::int64_t value) {
  if (dtype() == Dtype::i64) {
    std::get<xt::xarray<std::int64_t>>(storage_).data()[flat] = value;
    return;
  }
  if (value != static_cast<std::int32_t>(value))
    throw std::invalid_argument("int32 cannot hold " + std::to_string(value));
  std::get<xt::xarray<std::int32_t>>(storage_).data()[flat] = static_cast<std::int32_t>(value);
}

std::vector<double> Tensor::values() const {
  std::vector<double> values(size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(i);
  return values;
}

Tensor Tensor::as(Dtype dtype) const { return Tensor(dtype, shape_, values()); }

Tensor Tensor::slice(std::size_t index) const {
  Tensor slice(dtype(), Shape(shape_.begin() + 1, shape_.end()));
  std::memcpy(slice.bytes(), static_cast<const char*>(bytes()) + index * slice.byte_count(),
              slice.byte_count());
  return slice;
}

Tensor Tensor::stack(const std::vector<Tensor>& slices) {
  Shape shape = slices.at(0).shape();
  shape.insert(shape.begin(), slices.size());
  Tensor stacked(slices[0].dtype(), shape);
  for (std::size_t i = 0; i < slices.size(); ++i)
    std::memcpy(static_cast<char*>(stacked.bytes()) + i * slices[i].byte_count(), slices[i].bytes(),
                slices[i].byte_count());
  return stacked;
}

const void* Tensor::bytes() const {
  return std::visit([](const auto& array) -> const void* { return array.data(); }, storage_);
}

void* Tensor::bytes() {
  return std::visit([](auto& array) -> void* { return array.data(); }, storage_);
}

bool Tensor::identical(const Tensor& other) const {
  return dtype() == other.dtype() && shape_ == other.shape_ &&
         std::memcmp(bytes(), other.bytes(), byte_count()) == 0;
}

}  // namespace posproof
