// Waves from the angles themselves, and how vectors of them get into rows; included once per target.
#if defined(POSPROOF_OPTIMIZED_DIRECT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef POSPROOF_OPTIMIZED_DIRECT_INL
#undef POSPROOF_OPTIMIZED_DIRECT_INL
#else
#define POSPROOF_OPTIMIZED_DIRECT_INL
#endif

#include <algorithm>
#include <cmath>

#include "optimized/core/narrow-inl.hpp"
#include "optimized/core/rounding.hpp"
#include "optimized/core/rows.hpp"
#include "optimized/core/waves.hpp"

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

inline bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 64 == 0;
}

/// Whether rows go past the cache: large ones, of whole cache lines.
template <class T>
bool is_streamed(std::size_t count, std::size_t pairs, const Rows<T>& rows) {
  return 2 * count * pairs * sizeof(T) >= kStreamedBytes && is_aligned(rows.sin) &&
         (rows.cos == nullptr || is_aligned(rows.cos)) &&
         static_cast<std::size_t>(std::abs(rows.stride)) * sizeof(T) % 64 == 0;
}

}  // namespace posproof::optimized::core::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // POSPROOF_OPTIMIZED_DIRECT_INL
