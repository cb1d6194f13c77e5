#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>

#include "optimized/core/positions.hpp"

/// What kernels assert of their arguments in debug builds.
namespace posproof::optimized::core {

inline constexpr std::int64_t kPositionLimit = std::int64_t{1} << 31;

/// All of first, first + 1, … in (−2^31, 2^31).
inline bool are_positions(std::int64_t first, std::size_t count) {
  return count == 0 ||
         (first > -kPositionLimit && first < kPositionLimit &&
          count <= static_cast<std::size_t>(kPositionLimit - first));
}
template <class Position>
bool are_positions(const Position* positions, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (!are_positions(static_cast<std::int64_t>(positions[i]), 1)) return false;
  return true;
}
inline bool are_positions(const Positions& positions) {
  return positions.is_run() ? are_positions(positions.first, positions.count)
                            : are_positions(positions.list, positions.count);
}

/// The elements from `begin` to before `end` that a strided tensor lies in.
struct Extent {
  const void *begin, *end;

  template <class T>
  Extent(const T* data, std::size_t planes, std::ptrdiff_t plane_stride, std::size_t rows,
         std::ptrdiff_t row_stride, std::size_t width)
      : begin(data), end(data) {
    if (planes == 0 || rows == 0 || width == 0) return;
    std::ptrdiff_t least = 0, last = static_cast<std::ptrdiff_t>(width);
    for (const std::ptrdiff_t reach : {static_cast<std::ptrdiff_t>(planes - 1) * plane_stride,
                                       static_cast<std::ptrdiff_t>(rows - 1) * row_stride})
      (reach < 0 ? least : last) += reach;
    begin = data + least;
    end = data + last;
  }
};

inline bool are_apart(const Extent& a, const Extent& b) {
  const std::less_equal<const void*> before;
  return a.begin == a.end || b.begin == b.end || before(a.end, b.begin) || before(b.end, a.begin);
}

/// Rows of `width` elements of which none overlaps another: rows follow each other and heads lie
/// beyond them, or heads follow each other and rows lie beyond those.
inline bool are_rows_apart(std::size_t heads, std::ptrdiff_t head_stride, std::size_t rows,
                           std::ptrdiff_t row_stride, std::size_t width) {
  std::ptrdiff_t reach = static_cast<std::ptrdiff_t>(width);
  const auto is_beyond = [&](std::size_t count, std::ptrdiff_t stride) {
    if (count < 2) return true;
    if (std::abs(stride) < reach) return false;
    reach += static_cast<std::ptrdiff_t>(count - 1) * std::abs(stride);
    return true;
  };
  if (heads == 0 || rows == 0) return true;
  return std::abs(row_stride) <= std::abs(head_stride)
             ? is_beyond(rows, row_stride) && is_beyond(heads, head_stride)
             : is_beyond(heads, head_stride) && is_beyond(rows, row_stride);
}

}  // namespace posproof::optimized::core
