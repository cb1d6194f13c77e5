#pragma once

#include "optimized/core/waves.hpp"

/// The vector code of Waves: isa must not be scalar.
namespace posproof::optimized::core::vector {

/// fine_cos and fine_sin [half_block, padded] of the positions 1/2, 3/2, …
void make_fine(Isa isa, const double* turns, const double* turns_low, std::size_t padded,
               std::size_t half_block, double* fine_cos, double* fine_sin) noexcept;

template <class T>
void range(const Waves& waves, std::int64_t first, std::size_t count, Rows<T> rows) noexcept;

template <class T, class Position>
void list(const Waves& waves, const Position* positions, std::size_t count, Rows<T> rows) noexcept;

void near_midpoints(const Waves& waves, std::int64_t first, std::size_t count, Waves::Found found,
                    void* context) noexcept;

void range_of_f32_angles(const F32Waves& waves, std::int64_t first, std::size_t count,
                         Rows<float> rows) noexcept;

}  // namespace posproof::optimized::core::vector
