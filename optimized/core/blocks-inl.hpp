// Waves of rows around a centre, by the addition theorem; included once per target.
#if defined(POSPROOF_OPTIMIZED_BLOCKS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef POSPROOF_OPTIMIZED_BLOCKS_INL
#undef POSPROOF_OPTIMIZED_BLOCKS_INL
#else
#define POSPROOF_OPTIMIZED_BLOCKS_INL
#endif

#include <cmath>
#include <cstdint>

#include "optimized/core/direct-inl.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::optimized::core::HWY_NAMESPACE {
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

}  // namespace posproof::optimized::core::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // POSPROOF_OPTIMIZED_BLOCKS_INL
