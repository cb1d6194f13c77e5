#include "optimized/core/waves_vector.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimized/core/waves_vector.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "optimized/core/narrow-inl.hpp"
#include "optimized/core/rounding.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::optimized::core::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
constexpr D d;
constexpr std::size_t kLanes = hn::MaxLanes(d);
constexpr std::size_t kStep = 2 * kLanes;  // pairs at a time
constexpr Isa kIsa = HWY_TARGET == HWY_AVX3 ? Isa::avx512 : Isa::avx2;

struct SinCos {
  V sin, cos, turns;
};

/// As direct_wave in waves.cpp, of a vector of positions or of frequencies.
HWY_INLINE HWY_ATTR SinCos sin_cos(V position, V turns, V turns_low) {
  const hn::RebindToUnsigned<D> du;
  const V high = hn::Mul(position, turns);
  const V low = hn::MulSub(position, turns, high);
  const V shifted = hn::Add(high, hn::Set(d, kShifter));
  const V whole = hn::Sub(shifted, hn::Set(d, kShifter));
  const V f = hn::Add(hn::Sub(high, whole), hn::MulAdd(position, turns_low, low));
  const V square = hn::Mul(f, f);
  V sin = hn::Set(d, kSin[8]), cos = hn::Set(d, kCos[8]);
  for (int k = 7; k >= 0; --k) {
    sin = hn::MulAdd(sin, square, hn::Set(d, kSin[k]));
    cos = hn::MulAdd(cos, square, hn::Set(d, kCos[k]));
  }
  sin = hn::Mul(sin, f);
  const auto quadrant = hn::BitCast(du, shifted);
  const auto is_odd = hn::RebindMask(d, hn::TestBit(quadrant, hn::Set(du, 1)));
  const auto sign = hn::Set(du, std::uint64_t{1} << 63);
  const auto sin_sign = hn::And(hn::ShiftLeft<62>(quadrant), sign);
  const auto cos_sign = hn::And(hn::ShiftLeft<62>(hn::Add(quadrant, hn::Set(du, 1))), sign);
  return {hn::Xor(hn::IfThenElse(is_odd, cos, sin), hn::BitCast(d, sin_sign)),
          hn::Xor(hn::IfThenElse(is_odd, sin, cos), hn::BitCast(d, cos_sign)), high};
}

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

/// The waves of 2·kLanes pairs at one position.
struct Step {
  Between sin_lower, sin_upper, cos_lower, cos_upper;
};

/// Two vectors of a row, in the order of memory: all sines and all cosines, or in turn.
template <class T>
struct RowStep {
  typename Narrow<T>::Rounded first, second;
};

template <class T, bool kInterleaved>
HWY_INLINE HWY_ATTR RowStep<T> rounded(const Step& step) {
  using N = Narrow<T>;
  if constexpr (kInterleaved)
    return {N::round(step.sin_lower, step.cos_lower, Alternate{}),
            N::round(step.sin_upper, step.cos_upper, Alternate{})};
  else
    return {N::round(step.sin_lower, step.sin_upper, Identity{}),
            N::round(step.cos_lower, step.cos_upper, Identity{})};
}

/// Where the two vectors of a step go; `left` pairs of the row are left from there on.
template <class T>
struct Place {
  T *first, *second;
  std::size_t left;

  template <bool kInterleaved>
  static HWY_INLINE Place of(Rows<T> row, std::size_t pair, std::size_t pairs) {
    if constexpr (kInterleaved) return {row.sin + 2 * pair, row.sin + 2 * pair + kStep, pairs - pair};
    return {row.sin + pair, row.cos + pair, pairs - pair};
  }
};

template <class T, bool kInterleaved, bool kStream>
HWY_INLINE HWY_ATTR void store(typename Narrow<T>::Vector first, typename Narrow<T>::Vector second,
                               Place<T> place) {
  if (HWY_LIKELY(place.left >= kStep)) {
    Narrow<T>::template store<kStream>(first, place.first);
    Narrow<T>::template store<kStream>(second, place.second);
    return;
  }
  T values[2 * kStep];
  Narrow<T>::template store<false>(first, values);
  Narrow<T>::template store<false>(second, values + kStep);
  if constexpr (kInterleaved) {
    std::copy_n(values, 2 * place.left, place.first);
  } else {
    std::copy_n(values, place.left, place.first);
    std::copy_n(values + kStep, place.left, place.second);
  }
}

/// As store, but resolve(pair of the step, is_sin) gives what the bounds leave undecided.
template <class T, bool kInterleaved, class Resolve>
HWY_INLINE HWY_ATTR void store_carefully(const RowStep<T>& step, Place<T> place,
                                         const Resolve& resolve) {
  T values[2 * kStep], differs[2 * kStep];
  Narrow<T>::template store<false>(step.first.value, values);
  Narrow<T>::template store<false>(step.second.value, values + kStep);
  Narrow<T>::store_bits(step.first.differs, differs);
  Narrow<T>::store_bits(step.second.differs, differs + kStep);
  for (std::size_t lane = 0; lane < 2 * kStep; ++lane) {
    const bool is_sin = kInterleaved ? lane % 2 == 0 : lane < kStep;
    const std::size_t pair = kInterleaved ? lane / 2 : lane % kStep;
    if (pair >= place.left) continue;
    T& to = lane < kStep ? place.first[lane] : place.second[lane - kStep];
    to = bits_of(differs[lane]) == 0 ? values[lane] : resolve(pair, is_sin);
  }
}

template <class T>
HWY_INLINE HWY_ATTR bool is_decided(const RowStep<T>& step) {
  return Narrow<T>::is_decided(hn::Or(step.first.differs, step.second.differs));
}

/// One row from the angles themselves.
template <class T, bool kInterleaved>
HWY_INLINE HWY_ATTR void direct_row(const Waves& waves, const Waves::Lanes& lanes, double position,
                                    Rows<T> row) {
  const V at = hn::Set(d, position), amplitude = hn::Set(d, lanes.amplitude);
  const V wave_error = hn::Set(d, kWaveError);
  const V turn_error = hn::Set(d, kTurnError * std::fabs(lanes.amplitude));
  const auto between = [&](V wave, V turns) HWY_ATTR __attribute__((always_inline)) {
    const V value = hn::Mul(wave, amplitude);
    const V error = hn::MulAdd(hn::Abs(value), wave_error, hn::Mul(hn::Abs(turns), turn_error));
    return Between{hn::Sub(value, error), hn::Add(value, error)};
  };
  for (std::size_t i = 0; i < lanes.pairs; i += kStep) {
    const SinCos lower = sin_cos(at, hn::Load(d, lanes.turns + i), hn::Load(d, lanes.turns_low + i));
    const SinCos upper = sin_cos(at, hn::Load(d, lanes.turns + i + kLanes),
                                 hn::Load(d, lanes.turns_low + i + kLanes));
    const auto step = rounded<T, kInterleaved>(
        {between(lower.sin, lower.turns), between(upper.sin, upper.turns),
         between(lower.cos, lower.turns), between(upper.cos, upper.turns)});
    const auto place = Place<T>::template of<kInterleaved>(row, i, lanes.pairs);
    if (HWY_LIKELY(is_decided(step)))
      store<T, kInterleaved, false>(step.first.value, step.second.value, place);
    else
      store_carefully<T, kInterleaved>(step, place, [&](std::size_t pair, bool is_sin) {
        return waves.wave<T>(position, i + pair, is_sin);
      });
  }
}

/// Pairs whose coarse waves stand on the stack at a time.
constexpr std::size_t kChunk = 256;

/// Waves, with the amplitude, of the pairs of one chunk at the centre of a block.
struct Coarse {
  alignas(64) double cos[kChunk], sin[kChunk], sin_error[kChunk];
  double cos_error;
};

HWY_INLINE HWY_ATTR void make_coarse(const Waves::Lanes& lanes, double centre, std::size_t from,
                                     std::size_t to, Coarse& coarse) {
  const V amplitude = hn::Set(d, lanes.amplitude);
  coarse.cos_error = kProductError * std::fabs(lanes.amplitude);
  for (std::size_t i = from; i < to; i += kLanes) {
    const SinCos both = sin_cos(hn::Set(d, centre), hn::Load(d, lanes.turns + i),
                                hn::Load(d, lanes.turns_low + i));
    const V sin = hn::Mul(both.sin, amplitude);
    hn::Store(hn::Mul(both.cos, amplitude), d, coarse.cos + (i - from));
    hn::Store(sin, d, coarse.sin + (i - from));
    // |sin of the centre| + the largest |sin| of a fine row is at least both products of a sine.
    hn::Store(hn::MulAdd(hn::Abs(sin), hn::Set(d, kProductError),
                         hn::Mul(hn::Set(d, coarse.cos_error), hn::Load(d, lanes.fine_largest + i))),
              d, coarse.sin_error + (i - from));
  }
}

/// The waves of kLanes pairs on both sides of the centre, by the addition theorem.
struct Sides {
  Between minus_sin, minus_cos, plus_sin, plus_cos;
};

HWY_INLINE HWY_ATTR Sides sides(const double* coarse_cos, const double* coarse_sin,
                                const double* coarse_sin_error, const double* fine_cos,
                                const double* fine_sin, V cos_error) {
  const V cc = hn::Load(d, coarse_cos), cs = hn::Load(d, coarse_sin);
  const V sin_error = hn::Load(d, coarse_sin_error);
  const V fc = hn::Load(d, fine_cos), fs = hn::Load(d, fine_sin);
  const V cos_below = hn::MulSub(cc, fc, cos_error), cos_above = hn::MulAdd(cc, fc, cos_error);
  const V sin_below = hn::MulSub(cs, fc, sin_error), sin_above = hn::MulAdd(cs, fc, sin_error);
  return {{hn::NegMulAdd(cc, fs, sin_below), hn::NegMulAdd(cc, fs, sin_above)},
          {hn::MulAdd(cs, fs, cos_below), hn::MulAdd(cs, fs, cos_above)},
          {hn::MulAdd(cc, fs, sin_below), hn::MulAdd(cc, fs, sin_above)},
          {hn::NegMulAdd(cs, fs, cos_below), hn::NegMulAdd(cs, fs, cos_above)}};
}

/// kStep pairs of the rows −b and +b of a block.
template <class T>
struct BothRows {
  RowStep<T> minus, plus;
};

template <class T, bool kInterleaved>
HWY_INLINE HWY_ATTR BothRows<T> both_rows(const Coarse& coarse, std::size_t at,
                                          const double* fine_cos, const double* fine_sin) {
  const V cos_error = hn::Set(d, coarse.cos_error);
  const Sides lower = sides(coarse.cos + at, coarse.sin + at, coarse.sin_error + at, fine_cos,
                            fine_sin, cos_error);
  const Sides upper = sides(coarse.cos + at + kLanes, coarse.sin + at + kLanes,
                            coarse.sin_error + at + kLanes, fine_cos + kLanes, fine_sin + kLanes,
                            cos_error);
  return {rounded<T, kInterleaved>(
              {lower.minus_sin, upper.minus_sin, lower.minus_cos, upper.minus_cos}),
          rounded<T, kInterleaved>(
              {lower.plus_sin, upper.plus_sin, lower.plus_cos, upper.plus_cos})};
}

/// The same without an error for each value.
struct Values {
  V sin_lower, sin_upper, cos_lower, cos_upper;
};
struct BothValues {
  Values minus, plus;
};

HWY_INLINE HWY_ATTR BothValues both_values(const Coarse& coarse, std::size_t at,
                                           const double* fine_cos, const double* fine_sin) {
  const auto load = [](const double* from) HWY_ATTR __attribute__((always_inline)) {
    return hn::Load(d, from);
  };
  const std::size_t next = at + kLanes;
  const V cc = load(coarse.cos + at), cs = load(coarse.sin + at);
  const V fc = load(fine_cos), fs = load(fine_sin);
  const V cos = hn::Mul(cc, fc), sin = hn::Mul(cs, fc);
  const V cc2 = load(coarse.cos + next), cs2 = load(coarse.sin + next);
  const V fc2 = load(fine_cos + kLanes), fs2 = load(fine_sin + kLanes);
  const V cos2 = hn::Mul(cc2, fc2), sin2 = hn::Mul(cs2, fc2);
  return {{hn::NegMulAdd(cc, fs, sin), hn::NegMulAdd(cc2, fs2, sin2), hn::MulAdd(cs, fs, cos),
           hn::MulAdd(cs2, fs2, cos2)},
          {hn::MulAdd(cc, fs, sin), hn::MulAdd(cc2, fs2, sin2), hn::NegMulAdd(cs, fs, cos),
           hn::NegMulAdd(cs2, fs2, cos2)}};
}

template <class T>
struct TwoRows {
  typename Narrow<T>::Vector minus_first, minus_second, plus_first, plus_second;
  bool are_decided;
};

/// Rounds both rows of a step, or says that it takes a closer look.
template <class T, bool kInterleaved>
struct Quick;

/// The distance of every double from the midpoint of the two floats around it is compared with one
/// error for all. Below 2^-126 the floats are farther apart than the midpoint says, but there every
/// distance is below 2^-150 and so below the error, unless the amplitude is tiny.
template <bool kInterleaved>
struct Quick<float, kInterleaved> {
  V error;

  HWY_INLINE HWY_ATTR explicit Quick(double amplitude)
      : error(hn::Set(d, std::fabs(amplitude) >= 0x1p-100 || amplitude == 0
                             ? kProductError * std::fabs(amplitude)
                             : HUGE_VAL)) {}

  HWY_INLINE HWY_ATTR static V to_midpoint(V value) {
    const hn::RebindToUnsigned<D> du;
    const auto midpoint = hn::OrAnd(hn::Set(du, std::uint64_t{1} << 28), hn::BitCast(du, value),
                                    hn::Set(du, ~((std::uint64_t{1} << 29) - 1)));
    return hn::Sub(value, hn::BitCast(d, midpoint));
  }
  HWY_INLINE HWY_ATTR static V nearest(const Values& values) {
    return min_abs(min_abs(to_midpoint(values.sin_lower), to_midpoint(values.sin_upper)),
                   min_abs(to_midpoint(values.cos_lower), to_midpoint(values.cos_upper)));
  }
  HWY_INLINE HWY_ATTR TwoRows<float> operator()(const BothValues& both) const {
    const V distance = min_abs(nearest(both.minus), nearest(both.plus));
    const bool are_decided = hn::AllFalse(d, hn::Le(distance, error));
    const Values &minus = both.minus, &plus = both.plus;
    if constexpr (kInterleaved)
      return {Alternate{}(pack(minus.sin_lower, minus.cos_lower)),
              Alternate{}(pack(minus.sin_upper, minus.cos_upper)),
              Alternate{}(pack(plus.sin_lower, plus.cos_lower)),
              Alternate{}(pack(plus.sin_upper, plus.cos_upper)), are_decided};
    else
      return {pack(minus.sin_lower, minus.sin_upper), pack(minus.cos_lower, minus.cos_upper),
              pack(plus.sin_lower, plus.sin_upper), pack(plus.cos_lower, plus.cos_upper),
              are_decided};
  }
};

/// The error and the rounding to float are far below one place of 16 bits: both ends are rounded.
template <class T, bool kInterleaved>
struct Quick {
  VF least;

  HWY_INLINE HWY_ATTR explicit Quick(double amplitude)
      : least(hn::Set(DF(), static_cast<float>(1.01 * kProductError * std::fabs(amplitude)) +
                                0x1p-149f)) {}

  HWY_INLINE HWY_ATTR typename Narrow<T>::Rounded ends(V first, V second) const {
    VF value = pack(first, second);
    if constexpr (kInterleaved) value = Alternate{}(value);
    const VF error = hn::MulAdd(hn::Abs(value), hn::Set(DF(), 0x1p-23f), least);
    const auto rounded = Narrow<T>::narrow(hn::Sub(value, error));
    return {rounded, hn::Xor(rounded, Narrow<T>::narrow(hn::Add(value, error)))};
  }
  HWY_INLINE HWY_ATTR RowStep<T> row(const Values& values) const {
    if constexpr (kInterleaved)
      return {ends(values.sin_lower, values.cos_lower), ends(values.sin_upper, values.cos_upper)};
    else
      return {ends(values.sin_lower, values.sin_upper), ends(values.cos_lower, values.cos_upper)};
  }
  HWY_INLINE HWY_ATTR TwoRows<T> operator()(const BothValues& both) const {
    const RowStep<T> minus = row(both.minus), plus = row(both.plus);
    return {minus.first.value, minus.second.value, plus.first.value, plus.second.value,
            Narrow<T>::is_decided(hn::Or(hn::Or(minus.first.differs, minus.second.differs),
                                         hn::Or(plus.first.differs, plus.second.differs)))};
  }
};

/// 2·half rows from position `first` on, around their middle.
struct Block {
  std::int64_t first;
  std::size_t half;

  double centre() const {
    return static_cast<double>(first) + static_cast<double>(half) - 0.5;
  }
  std::size_t minus(std::size_t b) const { return half - 1 - b; }
  std::size_t plus(std::size_t b) const { return half + b; }
  double position(std::size_t row) const {
    return static_cast<double>(first + static_cast<std::int64_t>(row));
  }
};

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

/// Output of which most has left the cache before it is read: stores go past it.
constexpr std::size_t kStreamedBytes = std::size_t{8} << 20;

inline bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 64 == 0;
}

template <class T>
bool is_streamed(std::size_t count, std::size_t pairs, const Rows<T>& rows) {
  return 2 * count * pairs * sizeof(T) >= kStreamedBytes && is_aligned(rows.sin) &&
         (rows.cos == nullptr || is_aligned(rows.cos)) &&
         static_cast<std::size_t>(std::abs(rows.stride)) * sizeof(T) % 64 == 0;
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

HWY_NOINLINE HWY_ATTR void report(const Waves::Lanes& lanes, const RowStep<float>& step,
                                  std::int64_t position, std::size_t pair, Waves::Found found,
                                  void* context) {
  alignas(64) std::uint32_t sin[kStep], cos[kStep];
  hn::Store(step.first.differs, DU(), sin);
  hn::Store(step.second.differs, DU(), cos);
  for (std::size_t lane = 0; lane < kStep && pair + lane < lanes.pairs; ++lane) {
    if (sin[lane] != 0) found(context, position, pair + lane, true);
    if (cos[lane] != 0) found(context, position, pair + lane, false);
  }
}

/// The loops of write_block, without a store.
HWY_ATTR void undecided(const Waves& waves, std::int64_t first, std::size_t count,
                        Waves::Found found, void* context) {
  ran_on = kIsa;
  assert(count % 2 == 0);
  const Waves::Lanes lanes = waves.lanes();
  const Quick<float, false> quick(lanes.amplitude);
  Coarse coarse;
  while (count >= 2) {
    const Block block{first, std::min(lanes.half_block, count / 2)};
    for (std::size_t from = 0; from < lanes.padded; from += kChunk) {
      const std::size_t to = std::min(from + kChunk, lanes.padded);
      make_coarse(lanes, block.centre(), from, to, coarse);
      for (std::size_t b = 0; b < block.half; ++b)
        for (std::size_t i = from; i < to; i += kStep) {
          const std::size_t fine = b * lanes.padded + i;
          const auto two = quick(
              both_values(coarse, i - from, lanes.fine_cos + fine, lanes.fine_sin + fine));
          if (HWY_LIKELY(two.are_decided)) continue;
          const auto again = both_rows<float, false>(coarse, i - from, lanes.fine_cos + fine,
                                                     lanes.fine_sin + fine);
          report(lanes, again.minus, first + static_cast<std::int64_t>(block.minus(b)), i, found,
                 context);
          report(lanes, again.plus, first + static_cast<std::int64_t>(block.plus(b)), i, found,
                 context);
        }
    }
    first += static_cast<std::int64_t>(2 * block.half);
    count -= 2 * block.half;
  }
}

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

void undecided(const Waves& waves, std::int64_t first, std::size_t count, Waves::Found found,
               void* context) noexcept {
  POSPROOF_ON(waves.isa(), undecided(waves, first, count, found, context));
}

void range_of_f32_angles(const F32Waves& waves, std::int64_t first, std::size_t count,
                         Rows<float> rows) noexcept {
  POSPROOF_ON(waves.isa(), range_of_f32_angles(waves, first, count, rows));
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
