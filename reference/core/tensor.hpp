#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>
#include <xtensor/xarray.hpp>

#include "reference/core/dtype.hpp"

namespace posproof {

using Shape = std::vector<std::size_t>;

std::size_t element_count(const Shape& shape);
/// "[3,0,17]"
std::string to_string(const Shape& shape);

/// A dense row-major array of one of the six dtypes.
class Tensor {
 public:
  using Storage =
      std::variant<xt::xarray<double>, xt::xarray<float>, xt::xarray<f16>, xt::xarray<bf16>,
                   xt::xarray<std::int64_t>, xt::xarray<std::int32_t>>;

  /// An empty f64 vector.
  Tensor();
  /// All zeros.
  Tensor(Dtype dtype, Shape shape);
  /// Each value rounded to nearest even into `dtype`. Throws std::invalid_argument when the count
  /// does not fit the shape, or when an integer dtype is given something else than integers.
  Tensor(Dtype dtype, Shape shape, const std::vector<double>& values);

  static Tensor integers(Shape shape, const std::vector<std::int64_t>& values,
                         Dtype dtype = Dtype::i64);

  Dtype dtype() const;
  const Shape& shape() const { return shape_; }
  std::size_t rank() const { return shape_.size(); }
  std::size_t size() const { return element_count(shape_); }

  /// The element at a flat row-major index as a double; exact but for int64 beyond 2^53.
  double value(std::size_t flat) const;
  /// The element of an integer tensor.
  std::int64_t integer(std::size_t flat) const;
  /// The element's bits, zero-extended.
  std::uint64_t bits(std::size_t flat) const;
  /// Rounds `value` to nearest even into the dtype.
  void set(std::size_t flat, double value);
  void set_integer(std::size_t flat, std::int64_t value);

  std::vector<double> values() const;
  /// Same values in another dtype, each rounded once.
  Tensor as(Dtype dtype) const;
  /// The index-th entry along the first axis, and the reverse.
  Tensor slice(std::size_t index) const;
  static Tensor stack(const std::vector<Tensor>& slices);

  const void* bytes() const;
  void* bytes();
  std::size_t byte_count() const { return size() * byte_size(dtype()); }

  const Storage& storage() const { return storage_; }

  /// Same dtype, shape and bits.
  bool identical(const Tensor& other) const;

 private:
  Shape shape_;
  Storage storage_;
};

using Tensors = std::map<std::string, Tensor>;

/// The row-major index of a flat position: 17 in [2,3,4] is [1,1,1].
std::vector<std::size_t> index_of(std::size_t flat, const Shape& shape);

}  // namespace posproof
