#include "optimized/learned.hpp"

#include <algorithm>
#include <cassert>

#include "optimized/core/checks.hpp"
#include "optimized/core/rows.hpp"

namespace posproof::optimized::learned {
namespace {

/// write(t, its row of the table, the row after): rows are in no order that the CPU could foresee, so
/// the next one is asked for while this one is written.
template <class T, class Position, class Write>
void by_rows(const Table<T>& table, const Position* positions, std::size_t count,
             const Write& write) {
  const auto row_of = [&](std::size_t t) {
    return table.data + (static_cast<std::ptrdiff_t>(positions[t]) +
                         static_cast<std::ptrdiff_t>(table.shift)) *
                            table.stride;
  };
  for (std::size_t t = 0; t < count; ++t) write(t, row_of(t), row_of(std::min(t + 1, count - 1)));
}

template <class T>
void check([[maybe_unused]] const Table<T>& table, [[maybe_unused]] const void* positions,
           [[maybe_unused]] std::size_t count, [[maybe_unused]] const T* out,
           [[maybe_unused]] std::ptrdiff_t out_stride) {
  [[maybe_unused]] const bool is_empty = count == 0 || table.width == 0;
  assert(is_empty || (positions != nullptr && table.data != nullptr && out != nullptr));
  assert(core::are_rows_apart(1, 0, table.rows, table.stride, table.width) && "table.stride");
  assert(core::are_rows_apart(1, 0, count, out_stride, table.width) && "out_stride");
  assert(core::are_apart({table.data, 1, 0, table.rows, table.stride, table.width},
                         {out, 1, 0, count, out_stride, table.width}));
}

}  // namespace

template <class Position>
std::size_t first_outside(std::size_t rows, std::int64_t shift, const Position* positions,
                          std::size_t count) noexcept {
  for (std::size_t t = 0; t < count; ++t) {
    const std::int64_t position = positions[t];
    if (position < 0 || position < -shift || position >= static_cast<std::int64_t>(rows) - shift)
      return t;
  }
  return count;
}

template <class T, class Position>
void embed(const Table<T>& table, const Position* positions, std::size_t count, T* out,
           std::ptrdiff_t out_stride, Isa isa) noexcept {
  check(table, positions, count, out, out_stride);
  assert(first_outside(table.rows, table.shift, positions, count) == count);
  core::ran_on = Isa::scalar;
  const bool is_streamed = count * table.width * sizeof(T) >= core::kStreamedBytes;
  by_rows(table, positions, count, [&](std::size_t t, const T* row, const T* next) {
    core::copy_row(isa, row, out + static_cast<std::ptrdiff_t>(t) * out_stride, table.width,
                   is_streamed, next);
  });
  if (is_streamed) core::finish_streaming();
}

template <class T, class Position>
void embed_and_add(const Table<T>& table, const Position* positions, std::size_t count, const T* x,
                   std::ptrdiff_t x_stride, T* out, std::ptrdiff_t out_stride, Isa isa) noexcept {
  check(table, positions, count, out, out_stride);
  assert(first_outside(table.rows, table.shift, positions, count) == count);
  assert(x != nullptr || count == 0 || table.width == 0);
  assert(x == out ? x_stride == out_stride || count < 2
                  : core::are_apart({x, 1, 0, count, x_stride, table.width},
                                    {out, 1, 0, count, out_stride, table.width}));
  core::ran_on = Isa::scalar;
  const bool is_streamed = out != x && count * table.width * sizeof(T) >= core::kStreamedBytes;
  by_rows(table, positions, count, [&](std::size_t t, const T* row, const T* next) {
    core::add_row(isa, x + static_cast<std::ptrdiff_t>(t) * x_stride, row,
                  out + static_cast<std::ptrdiff_t>(t) * out_stride, table.width, is_streamed, next);
  });
  if (is_streamed) core::finish_streaming();
}

#define POSPROOF_POSITIONS(T, P)                                                               \
  template void embed(const Table<T>&, const P*, std::size_t, T*, std::ptrdiff_t, Isa) noexcept; \
  template void embed_and_add(const Table<T>&, const P*, std::size_t, const T*, std::ptrdiff_t, \
                              T*, std::ptrdiff_t, Isa) noexcept;
#define POSPROOF_LEARNED(T)              \
  POSPROOF_POSITIONS(T, std::int32_t)    \
  POSPROOF_POSITIONS(T, std::int64_t)
POSPROOF_LEARNED(float)
POSPROOF_LEARNED(F16)
POSPROOF_LEARNED(BF16)
template std::size_t first_outside(std::size_t, std::int64_t, const std::int32_t*,
                                   std::size_t) noexcept;
template std::size_t first_outside(std::size_t, std::int64_t, const std::int64_t*,
                                   std::size_t) noexcept;

}  // namespace posproof::optimized::learned
