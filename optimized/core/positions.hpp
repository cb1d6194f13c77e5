#pragma once

#include <cstddef>
#include <cstdint>

namespace posproof::optimized {

/// Positions of an axis, each in (−2^31, 2^31): first, first + 1, … or, where list is not null, those
/// of the list. A run is much faster.
struct Positions {
  std::size_t count;
  std::int64_t first;
  const std::int64_t* list = nullptr;

  static Positions run(std::int64_t first, std::size_t count) { return {count, first, nullptr}; }
  static Positions of(const std::int64_t* list, std::size_t count) { return {count, 0, list}; }

  bool is_run() const { return list == nullptr; }
  std::int64_t at(std::size_t i) const {
    return list != nullptr ? list[i] : first + static_cast<std::int64_t>(i);
  }
};

/// A [heads, Lq, Lk] tensor; strides count elements, those of one row are adjacent.
template <class T>
struct Scores {
  T* data;
  std::ptrdiff_t head_stride, row_stride;

  static Scores packed(T* data, std::size_t rows, std::size_t columns) {
    return {data, static_cast<std::ptrdiff_t>(rows * columns),
            static_cast<std::ptrdiff_t>(columns)};
  }
  T* row(std::size_t head, std::size_t i) const {
    return data + static_cast<std::ptrdiff_t>(head) * head_stride +
           static_cast<std::ptrdiff_t>(i) * row_stride;
  }
};

}  // namespace posproof::optimized
