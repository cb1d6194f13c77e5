#include "optimized/t5.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "optimized/core/checks.hpp"
#include "optimized/core/exact.hpp"
#include "optimized/core/rows.hpp"

namespace posproof::optimized::t5 {
namespace {

constexpr std::size_t kTileColumns = 2048, kTileRows = 256;

}  // namespace

Buckets::Buckets(const Parameters& parameters, Isa isa)
    : isa_(isa),
      count_(parameters.num_buckets),
      per_side_(parameters.bidirectional ? parameters.num_buckets / 2 : parameters.num_buckets),
      bidirectional_(parameters.bidirectional) {
  const std::int64_t single = per_side_ / 2;
  if (count_ > 65536 || single < 1 || parameters.max_distance <= single)
    throw std::invalid_argument(
        "num_buckets, max_distance: found " + std::to_string(count_) + " and " +
        std::to_string(parameters.max_distance) +
        ", allowed are at most 65536 buckets, 2 a side, and a max_distance above half of a side");
  for (std::int64_t b = 0; b <= single; ++b) begins_.push_back(b);
  // Range r begins at the least n with (n/single)^ranges ≥ (max_distance/single)^r.
  const std::int64_t ranges = per_side_ - single;
  for (std::int64_t r = 1; r < ranges; ++r)
    begins_.push_back(core::least_with_power(single, ranges, parameters.max_distance, r));
}

std::int64_t Buckets::bucket(std::int64_t relative) const noexcept {
  const std::int64_t side = bidirectional_ && relative > 0 ? per_side_ : 0;
  const std::int64_t distance =
      bidirectional_ ? std::abs(relative) : std::max<std::int64_t>(-relative, 0);
  const auto above = std::upper_bound(begins_.begin(), begins_.end(), distance);
  return side + (above - begins_.begin()) - 1;
}

std::int64_t Buckets::end_of_bucket(std::int64_t relative, std::int64_t bucket) const noexcept {
  if (relative > 0) {
    const auto next = static_cast<std::size_t>(bucket - (bidirectional_ ? per_side_ : 0)) + 1;
    return !bidirectional_ || next >= begins_.size() ? std::int64_t{1} << 33 : begins_[next];
  }
  // Towards 0 a bucket ends after its smallest distance.
  if (relative == 0) return bidirectional_ ? 1 : std::int64_t{1} << 33;
  return -begins_[static_cast<std::size_t>(bucket)] + 1;
}

/// strip[c] = column[bucket(first + c)], bucket by bucket.
template <class T>
void Buckets::make_strip(std::int64_t first, std::size_t count, const T* column,
                         std::ptrdiff_t table_stride, T* strip) const noexcept {
  const std::int64_t end = first + static_cast<std::int64_t>(count);
  for (std::int64_t relative = first; relative < end;) {
    const std::int64_t which = bucket(relative);
    const std::int64_t next = std::min(end, end_of_bucket(relative, which));
    std::fill(strip + (relative - first), strip + (next - first),
              column[static_cast<std::ptrdiff_t>(which) * table_stride]);
    relative = next;
  }
}

template <class T>
void Buckets::fill(Positions queries, Positions keys, const T* table, std::ptrdiff_t table_stride,
                   std::size_t heads, Scores<T> bias) const noexcept {
  assert((table != nullptr && bias.data != nullptr) || heads == 0 || queries.count == 0 ||
         keys.count == 0);
  assert(std::abs(table_stride) >= static_cast<std::ptrdiff_t>(heads));
  assert(core::are_rows_apart(heads, bias.head_stride, queries.count, bias.row_stride, keys.count));
  assert(core::are_apart({table, 1, 0, static_cast<std::size_t>(count_), table_stride, heads},
                         {bias.data, heads, bias.head_stride, queries.count, bias.row_stride,
                          keys.count}));
  assert(core::are_positions(queries) && core::are_positions(keys));
  core::ran_on = Isa::scalar;
  const bool is_tiled = queries.is_run() && keys.is_run();
  const bool is_streamed = heads * queries.count * keys.count * sizeof(T) >= core::kStreamedBytes;
  const std::size_t tile_rows = is_tiled ? kTileRows : 1;
  T strip[kTileColumns + kTileRows];
  for (std::size_t head = 0; head < heads; ++head)
    for (std::size_t row = 0; row < queries.count; row += tile_rows) {
      const std::size_t rows = std::min(tile_rows, queries.count - row);
      for (std::size_t column = 0; column < keys.count; column += kTileColumns) {
        const std::size_t columns = std::min(kTileColumns, keys.count - column);
        if (is_tiled)
          make_strip(keys.at(column) - queries.at(row + rows - 1), columns + rows - 1,
                     table + head, table_stride, strip);
        else
          for (std::size_t c = 0; c < columns; ++c)
            strip[c] = table[static_cast<std::ptrdiff_t>(
                                 bucket(keys.at(column + c) - queries.at(row))) *
                                 table_stride +
                             static_cast<std::ptrdiff_t>(head)];
        for (std::size_t r = 0; r < rows; ++r)
          core::copy_row(isa_, strip + (rows - 1 - r), bias.row(head, row + r) + column, columns,
                         is_streamed);
      }
    }
  if (is_streamed) core::finish_streaming();
}

#define POSPROOF_FILL(T)                                                                     \
  template void Buckets::fill(Positions, Positions, const T*, std::ptrdiff_t, std::size_t,   \
                              Scores<T>) const noexcept;
POSPROOF_FILL(float)
POSPROOF_FILL(F16)
POSPROOF_FILL(BF16)

}  // namespace posproof::optimized::t5
