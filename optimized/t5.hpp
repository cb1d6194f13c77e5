#pragma once

#include <vector>

#include "optimized/core/isa.hpp"
#include "optimized/core/positions.hpp"
#include "optimized/core/types.hpp"

namespace posproof::optimized::t5 {

struct Parameters {
  std::int64_t num_buckets = 32;
  std::int64_t max_distance = 128;
  bool bidirectional = true;
};

/// Relative position buckets and the bias that a table has for them. With B buckets a side, e = B/2
/// of them single distances, distance n ≥ e has bucket e + floor((B − e)·log(n/e)/log(max_distance/e)),
/// at most B − 1. Raffel et al. 2020, arXiv:1910.10683, section 2.1, as in mesh-tensorflow.
///
/// Exact: where a range begins is decided by integer powers, once, in the constructor; no logarithm
/// per element. Elements of the table are copied with their bits. Nothing else allocates. Debug builds
/// assert that positions are in (−2^31, 2^31), that no pointer is null, that |table_stride| ≥ heads and
/// that the rows of the bias overlap neither each other nor the table.
class Buckets {
 public:
  /// Throws std::invalid_argument unless every side has at least one single distance and
  /// max_distance is above those.
  explicit Buckets(const Parameters& parameters, Isa isa = default_isa());

  std::int64_t count() const noexcept { return count_; }
  /// Bucket of key position − query position, |relative| < 2^32.
  std::int64_t bucket(std::int64_t relative) const noexcept;

  /// bias[h,i,j] = table[bucket(j − i), h]; table rows have one element per head, `table_stride`
  /// apart. T is float, F16 or BF16.
  template <class T>
  void fill(Positions queries, Positions keys, const T* table, std::ptrdiff_t table_stride,
            std::size_t heads, Scores<T> bias) const noexcept;

 private:
  template <class T>
  void make_strip(std::int64_t first, std::size_t count, const T* column,
                  std::ptrdiff_t table_stride, T* strip) const noexcept;
  /// First relative position above `relative` that may have another bucket.
  std::int64_t end_of_bucket(std::int64_t relative, std::int64_t bucket) const noexcept;

  Isa isa_;
  std::int64_t count_, per_side_;
  bool bidirectional_;
  std::vector<std::int64_t> begins_;  ///< smallest distance of each bucket of a side
};

}  // namespace posproof::optimized::t5
