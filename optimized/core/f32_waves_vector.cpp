#include "optimized/core/waves_vector.hpp"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimized/core/f32_waves_vector.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "optimized/core/blocks-inl.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::optimized::core::HWY_NAMESPACE {
template <bool kStream>
HWY_ATTR void f32_angles(const F32Waves& waves, std::int64_t first, std::size_t count,
                         Rows<float> rows) {
  const Waves::Lanes unit = waves.unit().lanes();
  const DF df;
  const hn::Half<DF> dh;
  const V turns = hn::Set(d, unit.turns[0]), turns_low = hn::Set(d, unit.turns_low[0]);
  const V wave_error = hn::Set(d, kWaveError), turn_error = hn::Set(d, kTurnError);
  const auto between = [&](V wave, V at) HWY_ATTR __attribute__((always_inline)) {
    const V error = hn::MulAdd(hn::Abs(wave), wave_error, hn::Mul(hn::Abs(at), turn_error));
    return Between{hn::Sub(wave, error), hn::Add(wave, error)};
  };
  for (std::size_t row = 0; row < count; ++row) {
    const auto position = static_cast<float>(first + static_cast<std::int64_t>(row));
    const Rows<float> to = rows.from(row);
    for (std::size_t i = 0; i < waves.pairs(); i += kStep) {
      const VF angles = hn::Mul(hn::Set(df, position), hn::Load(df, waves.inv_freq() + i));
      const SinCos lower = sin_cos(hn::PromoteTo(d, hn::LowerHalf(dh, angles)), turns, turns_low);
      const SinCos upper = sin_cos(hn::PromoteTo(d, hn::UpperHalf(dh, angles)), turns, turns_low);
      const auto step = rounded<float, false>(
          {between(lower.sin, lower.turns), between(upper.sin, upper.turns),
           between(lower.cos, lower.turns), between(upper.cos, upper.turns)});
      const auto place = Place<float>::of<false>(to, i, waves.pairs());
      if (HWY_LIKELY(is_decided(step)))
        store<float, false, kStream>(step.first.value, step.second.value, place);
      else
        store_carefully<float, false>(step, place, [&](std::size_t pair, bool is_sin) {
          return waves.wave(position * waves.inv_freq()[i + pair], is_sin);
        });
    }
  }
  if constexpr (kStream) hwy::FlushStream();
}

/// Turns waves at position·ω to the f32 angle, its rounding r away, |r| ≤ 2^-8: cos r and sin r by
/// Taylor, the first terms left out are below 2^-57.
HWY_INLINE HWY_ATTR void turn_by_rounding(V r, V& sin, V& cos) {
  const V square = hn::Mul(r, r);
  const V cos_less_one =
      hn::Mul(square, hn::MulAdd(square, hn::Set(d, 1.0 / 24), hn::Set(d, -0.5)));
  const V sin_r = hn::MulAdd(
      r, hn::Mul(square, hn::MulAdd(square, hn::Set(d, 1.0 / 120), hn::Set(d, -1.0 / 6))), r);
  const V s = sin, c = cos;
  sin = hn::MulAdd(s, cos_less_one, hn::MulAdd(c, sin_r, s));
  cos = hn::MulAdd(c, cos_less_one, hn::NegMulAdd(s, sin_r, c));
}

HWY_INLINE HWY_ATTR void turn_by_rounding(VF position, VF inv_freq, Values& values) {
  const hn::Half<DF> dh;
  const VF rounding = hn::NegMulAdd(position, inv_freq, hn::Mul(position, inv_freq));
  turn_by_rounding(hn::PromoteTo(d, hn::LowerHalf(dh, rounding)), values.sin_lower,
                   values.cos_lower);
  turn_by_rounding(hn::PromoteTo(d, hn::UpperHalf(dh, rounding)), values.sin_upper,
                   values.cos_upper);
}

/// kStep pairs of one row, each by the slow path where the fast one leaves it open.
HWY_NOINLINE HWY_ATTR void write_f32_angles(const F32Waves& waves, double position,
                                            std::size_t pair, Rows<float> row) {
  const std::size_t end = std::min(pair + kStep, waves.pairs());
  for (std::size_t i = pair; i < end; ++i) {
    const float angle = static_cast<float>(position) * waves.inv_freq()[i];
    row.sin[i] = waves.wave(angle, true);
    row.cos[i] = waves.wave(angle, false);
  }
}

/// write_block for small f32 angles.
template <bool kStream>
HWY_ATTR void write_f32_block(const F32Waves& waves, const Block& block, Rows<float> rows) {
  const Waves::Lanes lanes = waves.waves().lanes();
  const Quick<float, false> quick(1.0);
  const DF df;
  Coarse coarse;
  for (std::size_t from = 0; from < lanes.padded; from += kChunk) {
    const std::size_t to = std::min(from + kChunk, lanes.pairs);
    make_coarse(lanes, block.centre(), from, std::min(from + kChunk, lanes.padded), coarse);
    for (std::size_t b = 0; b < block.half; ++b) {
      const double* fine_cos = lanes.fine_cos + b * lanes.padded;
      const double* fine_sin = lanes.fine_sin + b * lanes.padded;
      const double below = block.position(block.minus(b)), above = block.position(block.plus(b));
      const VF minus_position = hn::Set(df, static_cast<float>(below));
      const VF plus_position = hn::Set(df, static_cast<float>(above));
      const Rows<float> minus = rows.from(block.minus(b)), plus = rows.from(block.plus(b));
      for (std::size_t i = from; i < to; i += kStep) {
        BothValues both = both_values(coarse, i - from, fine_cos + i, fine_sin + i);
        const VF inv_freq = hn::Load(df, waves.inv_freq() + i);
        turn_by_rounding(minus_position, inv_freq, both.minus);
        turn_by_rounding(plus_position, inv_freq, both.plus);
        const TwoRows<float> two = quick(both);
        if (HWY_UNLIKELY(!two.are_decided)) {
          write_f32_angles(waves, below, i, minus);
          write_f32_angles(waves, above, i, plus);
          continue;
        }
        store<float, false, kStream>(two.minus_first, two.minus_second,
                                     Place<float>::of<false>(minus, i, lanes.pairs));
        store<float, false, kStream>(two.plus_first, two.plus_second,
                                     Place<float>::of<false>(plus, i, lanes.pairs));
      }
    }
  }
}

template <bool kStream>
HWY_ATTR void f32_blocks(const F32Waves& waves, std::int64_t first, std::size_t count,
                         Rows<float> rows) {
  const std::size_t half_block = waves.waves().lanes().half_block;
  while (count >= 2) {
    const Block block{first, std::min(half_block, count / 2)};
    write_f32_block<kStream>(waves, block, rows);
    rows = rows.from(2 * block.half);
    first += static_cast<std::int64_t>(2 * block.half);
    count -= 2 * block.half;
  }
  if (count == 1) f32_angles<false>(waves, first, 1, rows);
  if constexpr (kStream) hwy::FlushStream();
}

HWY_ATTR void range_of_f32_angles(const F32Waves& waves, std::int64_t first, std::size_t count,
                                  Rows<float> rows) {
  ran_on = kIsa;
  const bool is_small = waves.has_small_angles(first, count);
  if (is_streamed(count, waves.pairs(), rows))
    is_small ? f32_blocks<true>(waves, first, count, rows)
             : f32_angles<true>(waves, first, count, rows);
  else
    is_small ? f32_blocks<false>(waves, first, count, rows)
             : f32_angles<false>(waves, first, count, rows);
}

}  // namespace posproof::optimized::core::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace posproof::optimized::core::vector {

void range_of_f32_angles(const F32Waves& waves, std::int64_t first, std::size_t count,
                         Rows<float> rows) noexcept {
  if (waves.isa() == Isa::avx512)
    N_AVX3::range_of_f32_angles(waves, first, count, rows);
  else
    N_AVX2::range_of_f32_angles(waves, first, count, rows);
}

}  // namespace posproof::optimized::core::vector
#endif
