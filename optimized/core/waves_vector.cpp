#include "optimized/core/waves_vector.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimized/core/waves_vector.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "optimized/core/blocks-inl.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::optimized::core::HWY_NAMESPACE {
void make_fine(const double* turns, const double* turns_low, std::size_t padded,
               std::size_t half_block, double* fine_cos, double* fine_sin) {
  for (std::size_t row = 0; row < half_block; ++row)
    for (std::size_t i = 0; i < padded; i += kLanes) {
      const SinCos waves = sin_cos(hn::Set(d, static_cast<double>(row) + 0.5),
                                   hn::Load(d, turns + i), hn::Load(d, turns_low + i));
      hn::Store(waves.cos, d, fine_cos + row * padded + i);
      hn::Store(waves.sin, d, fine_sin + row * padded + i);
    }
}

/// One step of write_block again, undecided values by the slow path.
template <class T, bool kInterleaved>
HWY_NOINLINE HWY_ATTR void write_carefully(const Waves& waves, const Block& block, Rows<T> rows,
                                           const Coarse& coarse, std::size_t b, std::size_t from,
                                           std::size_t pair) {
  const Waves::Lanes lanes = waves.lanes();
  const std::size_t fine = b * lanes.padded + pair;
  const BothRows<T> both = both_rows<T, kInterleaved>(coarse, pair - from, lanes.fine_cos + fine,
                                                      lanes.fine_sin + fine);
  const auto write = [&](std::size_t row, const RowStep<T>& step) HWY_ATTR {
    store_carefully<T, kInterleaved>(
        step, Place<T>::template of<kInterleaved>(rows.from(row), pair, lanes.pairs),
        [&](std::size_t lane, bool is_sin) {
          return waves.wave<T>(block.position(row), pair + lane, is_sin);
        });
  };
  write(block.minus(b), both.minus);
  write(block.plus(b), both.plus);
}

template <class T, bool kInterleaved, bool kStream>
HWY_ATTR void write_block(const Waves& waves, const Block& block, Rows<T> rows) {
  const Waves::Lanes lanes = waves.lanes();
  const Quick<T, kInterleaved> quick(lanes.amplitude);
  Coarse coarse;
  for (std::size_t from = 0; from < lanes.padded; from += kChunk) {
    const std::size_t to = std::min(from + kChunk, lanes.pairs);
    make_coarse(lanes, block.centre(), from, std::min(from + kChunk, lanes.padded), coarse);
    for (std::size_t b = 0; b < block.half; ++b) {
      const double* fine_cos = lanes.fine_cos + b * lanes.padded;
      const double* fine_sin = lanes.fine_sin + b * lanes.padded;
      const Rows<T> minus = rows.from(block.minus(b)), plus = rows.from(block.plus(b));
      for (std::size_t i = from; i < to; i += kStep) {
        const TwoRows<T> two = quick(both_values(coarse, i - from, fine_cos + i, fine_sin + i));
        if (HWY_UNLIKELY(!two.are_decided)) {
          write_carefully<T, kInterleaved>(waves, block, rows, coarse, b, from, i);
          continue;
        }
        store<T, kInterleaved, kStream>(
            two.minus_first, two.minus_second,
            Place<T>::template of<kInterleaved>(minus, i, lanes.pairs));
        store<T, kInterleaved, kStream>(two.plus_first, two.plus_second,
                                        Place<T>::template of<kInterleaved>(plus, i, lanes.pairs));
      }
    }
  }
}

template <class T, bool kInterleaved, bool kStream>
HWY_ATTR void blocks(const Waves& waves, std::int64_t first, std::size_t count, Rows<T> rows) {
  const Waves::Lanes lanes = waves.lanes();
  while (count >= 2) {
    const Block block{first, std::min(lanes.half_block, count / 2)};
    write_block<T, kInterleaved, kStream>(waves, block, rows);
    rows = rows.from(2 * block.half);
    first += static_cast<std::int64_t>(2 * block.half);
    count -= 2 * block.half;
  }
  if (count == 1) direct_row<T, kInterleaved>(waves, lanes, static_cast<double>(first), rows);
  if constexpr (kStream) hwy::FlushStream();
}

template <class T>
HWY_ATTR void range(const Waves& waves, std::int64_t first, std::size_t count, Rows<T> rows) {
  ran_on = kIsa;
  const bool is_interleaved = rows.cos == nullptr;
  if (is_streamed(count, waves.pairs(), rows))
    is_interleaved ? blocks<T, true, true>(waves, first, count, rows)
                   : blocks<T, false, true>(waves, first, count, rows);
  else
    is_interleaved ? blocks<T, true, false>(waves, first, count, rows)
                   : blocks<T, false, false>(waves, first, count, rows);
}

template <class T, class Position>
HWY_ATTR void list(const Waves& waves, const Position* positions, std::size_t count, Rows<T> rows) {
  ran_on = kIsa;
  const Waves::Lanes lanes = waves.lanes();
  for (std::size_t row = 0; row < count; ++row) {
    const auto position = static_cast<double>(positions[row]);
    if (rows.cos == nullptr)
      direct_row<T, true>(waves, lanes, position, rows.from(row));
    else
      direct_row<T, false>(waves, lanes, position, rows.from(row));
  }
}

/// The waves of one step that are near a midpoint.
HWY_NOINLINE HWY_ATTR void report(const Values& values, double error, std::int64_t position,
                                  std::size_t pair, std::size_t pairs, Waves::Found found,
                                  void* context) {
  alignas(64) double sin[kStep], cos[kStep];
  using Q = Quick<float, false>;
  hn::Store(hn::Abs(Q::to_midpoint(values.sin_lower)), d, sin);
  hn::Store(hn::Abs(Q::to_midpoint(values.sin_upper)), d, sin + kLanes);
  hn::Store(hn::Abs(Q::to_midpoint(values.cos_lower)), d, cos);
  hn::Store(hn::Abs(Q::to_midpoint(values.cos_upper)), d, cos + kLanes);
  for (std::size_t lane = 0; lane < kStep && pair + lane < pairs; ++lane) {
    if (sin[lane] <= error) found(context, position, pair + lane, true);
    if (cos[lane] <= error) found(context, position, pair + lane, false);
  }
}

/// The loops of write_block, without a store.
HWY_ATTR void near_midpoints(const Waves& waves, std::int64_t first, std::size_t count,
                             Waves::Found found, void* context) {
  ran_on = kIsa;
  assert(count % 2 == 0);
  const Waves::Lanes lanes = waves.lanes();
  const double error = 3 * kProductError * std::fabs(lanes.amplitude);
  Quick<float, false> quick(lanes.amplitude);
  quick.error = hn::Set(d, error);
  Coarse coarse;
  while (count >= 2) {
    const Block block{first, std::min(lanes.half_block, count / 2)};
    for (std::size_t from = 0; from < lanes.padded; from += kChunk) {
      const std::size_t to = std::min(from + kChunk, lanes.padded);
      make_coarse(lanes, block.centre(), from, to, coarse);
      for (std::size_t b = 0; b < block.half; ++b)
        for (std::size_t i = from; i < to; i += kStep) {
          const std::size_t fine = b * lanes.padded + i;
          const BothValues both =
              both_values(coarse, i - from, lanes.fine_cos + fine, lanes.fine_sin + fine);
          if (HWY_LIKELY(quick(both).are_decided)) continue;
          report(both.minus, error, first + static_cast<std::int64_t>(block.minus(b)), i,
                 lanes.pairs, found, context);
          report(both.plus, error, first + static_cast<std::int64_t>(block.plus(b)), i,
                 lanes.pairs, found, context);
        }
    }
    first += static_cast<std::int64_t>(2 * block.half);
    count -= 2 * block.half;
  }
}

}  // namespace posproof::optimized::core::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace posproof::optimized::core::vector {

#define POSPROOF_ON(isa, ...) (isa == Isa::avx512 ? N_AVX3::__VA_ARGS__ : N_AVX2::__VA_ARGS__)

void make_fine(Isa isa, const double* turns, const double* turns_low, std::size_t padded,
               std::size_t half_block, double* fine_cos, double* fine_sin) noexcept {
  POSPROOF_ON(isa, make_fine(turns, turns_low, padded, half_block, fine_cos, fine_sin));
}

template <class T>
void range(const Waves& waves, std::int64_t first, std::size_t count, Rows<T> rows) noexcept {
  POSPROOF_ON(waves.isa(), range<T>(waves, first, count, rows));
}

template <class T, class Position>
void list(const Waves& waves, const Position* positions, std::size_t count, Rows<T> rows) noexcept {
  POSPROOF_ON(waves.isa(), list<T, Position>(waves, positions, count, rows));
}

void near_midpoints(const Waves& waves, std::int64_t first, std::size_t count, Waves::Found found,
                    void* context) noexcept {
  POSPROOF_ON(waves.isa(), near_midpoints(waves, first, count, found, context));
}

#define POSPROOF_WAVES(T)                                                                    \
  template void range<T>(const Waves&, std::int64_t, std::size_t, Rows<T>) noexcept;         \
  template void list<T>(const Waves&, const std::int32_t*, std::size_t, Rows<T>) noexcept;   \
  template void list<T>(const Waves&, const std::int64_t*, std::size_t, Rows<T>) noexcept;
POSPROOF_WAVES(float)
POSPROOF_WAVES(F16)
POSPROOF_WAVES(BF16)

}  // namespace posproof::optimized::core::vector
#endif
