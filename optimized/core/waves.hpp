#pragma once

#include <cstddef>
#include <cstdint>
#include <hwy/aligned_allocator.h>
#include <span>

#include "optimized/core/exact.hpp"
#include "optimized/core/isa.hpp"
#include "optimized/core/types.hpp"

namespace posproof::optimized::core {

/// Where the waves of a position go: row r of pair i at sin[r·stride + i] and cos[r·stride + i], or
/// at sin[r·stride + 2i] and sin[r·stride + 2i + 1] when cos is null.
template <class T>
struct Rows {
  T* sin;
  T* cos;
  std::ptrdiff_t stride;

  Rows from(std::size_t row) const {
    const auto offset = static_cast<std::ptrdiff_t>(row) * stride;
    return {sin + offset, cos == nullptr ? nullptr : cos + offset, stride};
  }
  T& at(std::size_t pair, bool is_sin) const {
    if (cos == nullptr) return sin[2 * pair + (is_sin ? 0 : 1)];
    return is_sin ? sin[pair] : cos[pair];
  }
};

/// Coefficients of sin(π/2·f)/f and cos(π/2·f) in f², by Taylor. For |f| ≤ 1/2 the first term left
/// out is below 2^-58 of the result.
inline constexpr double kSin[] = {0x1.921fb54442d18p+0,   -0x1.4abbce625be53p-1, 0x1.466bc6775aae2p-4,
                                  -0x1.32d2cce62bd86p-8,  0x1.50783487ee782p-13, -0x1.e3074fde8871fp-19,
                                  0x1.e8f434d018d63p-25,  -0x1.6fadb9f155744p-31, 0x1.aaec32af93359p-38};
inline constexpr double kCos[] = {0x1.0000000000000p+0,   -0x1.3bd3cc9be45dep+0, 0x1.03c1f081b5ac4p-2,
                                  -0x1.55d3c7e3cbffap-6,  0x1.e1f506891babbp-11, -0x1.a6d1f2a204a8cp-16,
                                  0x1.f9d38a3763cc3p-22,  -0x1.b6e24f44b128fp-28, 0x1.20c62c2f2d7f5p-34};
/// Added to a double below 2^51 it rounds it to an integer, whose last bits are the sum's.
inline constexpr double kShifter = 0x1.8p52;

/// Errors of one wave from a double evaluation: relative, per quarter turn of the angle, and of a
/// sum of two products of such waves. docs/error-model.md, "The fast path".
inline constexpr double kWaveError = 8 * 0x1p-53;
inline constexpr double kTurnError = 0x1p-103;
inline constexpr double kProductError = 16 * 0x1p-53;

/// Rows of sines and cosines, correctly rounded: frequencies and an amplitude, made once, that any
/// number of threads may use.
class Waves {
 public:
  /// Allocates. Throws std::domain_error unless amplitude is 0 or within ±[2^-200, 2^200].
  Waves(Exact exact, DoubleDouble amplitude, Isa isa);

  std::size_t pairs() const noexcept { return pairs_; }
  Isa isa() const noexcept { return isa_; }
  const Exact& exact() const noexcept { return exact_; }

  /// Rows of the positions first, first + 1, …
  template <class T>
  void range(std::int64_t first, std::size_t count, Rows<T> rows) const noexcept;
  /// Rows of these positions.
  template <class T, class Position>
  void list(const Position* positions, std::size_t count, Rows<T> rows) const noexcept;

  /// One wave by the scalar path, and by the exact one where that is undecided.
  template <class T>
  T wave(double position, std::size_t pair, bool is_sin) const noexcept;

  /// Calls found(context, position, pair, is_sin) for every value of the positions first, first + 1, …
  /// that is within three errors of the fast path of a midpoint of two floats: whatever range or list
  /// a value is made in, the fast path leaves it undecided only if it is among these. Stores nothing.
  /// count must be even. docs/error-model.md, "The proof".
  using Found = void (*)(void* context, std::int64_t position, std::size_t pair, bool is_sin);
  void near_midpoints(std::int64_t first, std::size_t count, Found found,
                      void* context) const noexcept;

  /// What the vector code reads. Lanes past the pairs hold a frequency that nothing depends on.
  struct Lanes {
    std::size_t pairs, padded;
    std::size_t half_block;  ///< rows on either side of a block's centre
    double amplitude;
    const double *turns, *turns_low;    ///< [padded] quarter turns per position
    const double *fine_cos, *fine_sin;  ///< [half_block, padded] waves of position row + 1/2
    const double* fine_largest;         ///< [padded] at least the largest |fine_sin| of a pair
  };
  Lanes lanes() const noexcept;

 private:
  Exact exact_;
  DoubleDouble amplitude_;
  Isa isa_;
  std::size_t pairs_, padded_, half_block_;
  hwy::AlignedFreeUniquePtr<double[]> turns_, fine_;
};

/// cos and sin of the f32 angles fl(fl(p)·inv_freq_i), correctly rounded to f32.
class F32Waves {
 public:
  F32Waves(std::span<const float> inv_freq, Isa isa);
  std::size_t pairs() const noexcept { return waves_.pairs(); }
  Isa isa() const noexcept { return waves_.isa(); }
  void range(std::int64_t first, std::size_t count, Rows<float> rows) const noexcept;
  float wave(float angle, bool is_sin) const noexcept { return unit_.wave<float>(angle, 0, is_sin); }

  const Waves& unit() const noexcept { return unit_; }
  const Waves& waves() const noexcept { return waves_; }
  const float* inv_freq() const noexcept { return inv_freq_.get(); }
  /// Whether every angle of these positions is below 2^17, so that its rounding is below 2^-8, and
  /// exact where it was a product of floats.
  bool has_small_angles(std::int64_t first, std::size_t count) const noexcept;

 private:
  Waves unit_;   ///< one pair of frequency 1
  Waves waves_;  ///< the frequencies, of which the f32 angles are roundings away
  hwy::AlignedFreeUniquePtr<float[]> inv_freq_;  ///< padded
};

}  // namespace posproof::optimized::core
