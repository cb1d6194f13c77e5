#pragma once

#include <cstddef>

#include "optimized/core/isa.hpp"
#include "optimized/core/types.hpp"

/// Whole rows written, for kernels whose rows are pieces of one strip.
namespace posproof::optimized::core {

/// Output of which most has left the cache before it is read: stores go past it.
inline constexpr std::size_t kStreamedBytes = std::size_t{8} << 20;

/// to[i] = from[i]. Streamed stores must be ended by finish_streaming. `ahead` is what the next
/// call reads: it is asked for meanwhile.
template <class T>
void copy_row(Isa isa, const T* from, T* to, std::size_t count, bool is_streamed,
              const T* ahead = nullptr) noexcept;

/// to[i] = x[i] + addend[i]: the sum of floats, rounded to T where T is narrower.
template <class T, class Addend>
void add_row(Isa isa, const T* x, const Addend* addend, T* to, std::size_t count, bool is_streamed,
             const Addend* ahead = nullptr) noexcept;

void finish_streaming() noexcept;

}  // namespace posproof::optimized::core
