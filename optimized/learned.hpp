#pragma once

#include <cstdint>

#include "optimized/core/isa.hpp"
#include "optimized/core/types.hpp"

namespace posproof::optimized::learned {

/// A learned table [rows, width]; its rows are `stride` elements apart. Position p has row p + shift:
/// 0 for GPT-2, 2 for OPT and BART, padding_idx + 1 for RoBERTa.
template <class T>
struct Table {
  const T* data;
  std::size_t rows, width;
  std::ptrdiff_t stride;
  std::int64_t shift = 0;
};

/// The first index whose position is negative or has no row in the table, or `count`.
template <class Position>
std::size_t first_outside(std::size_t rows, std::int64_t shift, const Position* positions,
                          std::size_t count) noexcept;

/// out[t] = table[positions[t] + shift], with its bits; out rows are `out_stride` elements apart.
/// T is float, F16 or BF16. Every position must have a row: first_outside tells. Neither allocates.
/// Debug builds assert that, that no pointer is null, and that rows of out overlap neither each other
/// nor the table.
template <class T, class Position>
void embed(const Table<T>& table, const Position* positions, std::size_t count, T* out,
           std::ptrdiff_t out_stride, Isa isa = default_isa()) noexcept;

/// out[t] = x[t] + table[positions[t] + shift]: the sum of floats, rounded to T where T is narrower.
/// out is x, with its stride, or apart from it: debug builds assert it.
template <class T, class Position>
void embed_and_add(const Table<T>& table, const Position* positions, std::size_t count, const T* x,
                   std::ptrdiff_t x_stride, T* out, std::ptrdiff_t out_stride,
                   Isa isa = default_isa()) noexcept;

}  // namespace posproof::optimized::learned
