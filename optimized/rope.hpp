#pragma once

#include "optimized/core/waves.hpp"

namespace posproof::optimized::rope {

/// The lanes of pair i of P: (i, i + P) or (2i, 2i + 1).
enum class Layout { half, interleaved };

/// Frequencies ω_i = rope_theta^(−2i/rotary_dim)/factor and the factor on cos and sin.
/// Su et al. 2021, arXiv:2104.09864, eq. 15 with i from 0; factor: Chen et al. 2023,
/// arXiv:2306.15595, eq. 4.
///
/// cos and sin rows have rotary_dim/2 elements, `stride` elements apart. Every element is correctly
/// rounded to T (float, F16 or BF16) for every position in (−2^31, 2^31); position 0 is exact. The
/// same bits whatever the Isa, the alignment and the way that rows are split among calls or threads.
/// Nothing allocates but the constructors. Debug builds assert that positions are in that interval,
/// that no pointer is null and that |stride| ≥ rotary_dim/2.
class Angles {
 public:
  /// Throws std::invalid_argument for an odd rotary_dim or one below 2 and rope_theta or factor ≤ 0,
  /// and std::domain_error for a frequency outside [2^-200, 2^10].
  Angles(std::size_t rotary_dim, double rope_theta, double factor = 1, Isa isa = default_isa());
  /// Frequencies as given, in radians per position.
  Angles(std::span<const double> inv_freq, double attention_factor, Isa isa = default_isa());

  std::size_t pairs() const noexcept { return waves_.pairs(); }
  Isa isa() const noexcept { return waves_.isa(); }
  /// ω_i to about 106 bits.
  core::DoubleDouble inv_freq(std::size_t pair) const noexcept {
    return waves_.exact().frequency(pair);
  }

  /// Rows of the positions first, first + 1, …
  template <class T>
  void cos_sin(std::int64_t first, std::size_t count, T* cos, T* sin,
               std::ptrdiff_t stride) const noexcept;
  /// Rows of these positions, int32 or int64.
  template <class T, class Position>
  void cos_sin(const Position* positions, std::size_t count, T* cos, T* sin,
               std::ptrdiff_t stride) const noexcept;

  const core::Waves& waves() const noexcept { return waves_; }

 private:
  core::Waves waves_;
};

/// cos and sin of the angles that Hugging Face's code has, fl32(fl32(p)·inv_freq_i) with inv_freq
/// rounded to f32 at every step: the rounding that ports are held to. Correctly rounded to f32.
class F32Angles {
 public:
  /// Throws as Angles does.
  F32Angles(std::size_t rotary_dim, double rope_theta, double factor = 1, Isa isa = default_isa());

  std::size_t pairs() const noexcept { return waves_.pairs(); }
  float inv_freq(std::size_t pair) const noexcept { return waves_.inv_freq()[pair]; }
  /// Rows of the positions first, first + 1, …
  void cos_sin(std::int64_t first, std::size_t count, float* cos, float* sin,
               std::ptrdiff_t stride) const noexcept;

 private:
  core::F32Waves waves_;
};

/// x [tokens, heads, head_dim] → y, which is x itself or does not overlap it. Strides count elements;
/// the lanes of one head are adjacent. Lanes from 2·pairs on are copied with their bits.
template <class T>
struct Heads {
  const T* x;
  T* y;
  std::size_t tokens, heads, head_dim;
  std::ptrdiff_t x_token_stride, x_head_stride, y_token_stride, y_head_stride;

  /// Packed, in place when x == y.
  static Heads packed(const T* x, T* y, std::size_t tokens, std::size_t heads,
                      std::size_t head_dim) {
    const auto head = static_cast<std::ptrdiff_t>(head_dim);
    const auto token = static_cast<std::ptrdiff_t>(heads * head_dim);
    return {x, y, tokens, heads, head_dim, token, head, token, head};
  }
};

/// Turns pair i of token t by cos[t, i], sin[t, i]: (x1·cos − x2·sin, x1·sin + x2·cos), or by −sin
/// when inverse. Su et al. 2021, eq. 34. Tables are f32, rows `stride` elements apart.
///
/// f32: within 1.5·2^-24·(|x1| + |x2|)·max(1, |cos|, |sin|) of the exact result of the table's values
/// when cos² + sin² is 1 up to their rounding; F16, BF16: that in f32, rounded once more. Non-finite
/// lanes reach their own pair only. Tokens are independent: split them among threads. Debug builds
/// assert that 2·pairs ≤ head_dim, that no pointer is null, that heads of y do not overlap each other,
/// and that y is x, with its strides, or apart from it.
template <class T>
void rotate(const Heads<T>& heads, const float* cos, const float* sin, std::size_t pairs,
            std::ptrdiff_t stride, Layout layout, bool inverse, Isa isa = default_isa()) noexcept;

/// Largest number of pairs that apply makes on the stack.
inline constexpr std::size_t kMostPairs = 1024;

/// rotate by the angles of these positions (int32 or int64, one per token), made on the fly: no
/// table. Debug builds assert what rotate does, that angles.pairs() ≤ kMostPairs, and that positions
/// are in (−2^31, 2^31).
template <class T, class Position>
void apply(const Angles& angles, const Heads<T>& heads, const Position* positions, Layout layout,
           bool inverse) noexcept;

}  // namespace posproof::optimized::rope
