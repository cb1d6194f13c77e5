// The vector counterpart of rounding.hpp; included once per target.
#if defined(POSPROOF_OPTIMIZED_NARROW_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef POSPROOF_OPTIMIZED_NARROW_INL
#undef POSPROOF_OPTIMIZED_NARROW_INL
#else
#define POSPROOF_OPTIMIZED_NARROW_INL
#endif

#include <hwy/highway.h>

#include "optimized/core/types.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::optimized::core::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
using DU = hn::RebindToUnsigned<DF>;
using VU = hn::Vec<DU>;
using D16 = hn::Rebind<std::uint16_t, DF>;
using V16 = hn::Vec<D16>;

/// Two vectors of doubles as one of floats, each rounded to nearest even.
HWY_INLINE HWY_ATTR VF pack(hn::Vec<hn::ScalableTag<double>> lower,
                            hn::Vec<hn::ScalableTag<double>> upper) {
  const DF df;
  const hn::Half<DF> dh;
  return hn::Combine(df, hn::DemoteTo(dh, upper), hn::DemoteTo(dh, lower));
}

/// As pack, but what is inexact gets an odd last bit (rounding.hpp, to_odd_float). For magnitudes
/// from 2^-126 on.
HWY_INLINE HWY_ATTR VF pack_odd(hn::Vec<hn::ScalableTag<double>> lower,
                                hn::Vec<hn::ScalableTag<double>> upper) {
  const auto odd = [](hn::Vec<hn::ScalableTag<double>> value) HWY_ATTR
      __attribute__((always_inline)) {
    const hn::ScalableTag<double> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const auto low = hn::Set(du, (std::uint64_t{1} << 29) - 1);
    const auto bits = hn::BitCast(du, value);
    const auto carry = hn::Add(hn::And(bits, low), low);  // reaches bit 29 unless they are all 0
    return hn::BitCast(d, hn::AndNot(low, hn::Or(bits, carry)));
  };
  return pack(odd(lower), odd(upper));
}

/// The smaller magnitude of each lane.
HWY_INLINE HWY_ATTR hn::Vec<hn::ScalableTag<double>> min_abs(hn::Vec<hn::ScalableTag<double>> a,
                                                             hn::Vec<hn::ScalableTag<double>> b) {
#if HWY_TARGET == HWY_AVX3
  return hn::Vec<hn::ScalableTag<double>>{_mm512_range_pd(a.raw, b.raw, 0b1010)};
#else
  return hn::Min(hn::Abs(a), hn::Abs(b));
#endif
}

/// What is known of some numbers: each lies between below and above.
struct Between {
  hn::Vec<hn::ScalableTag<double>> below, above;
};

/// The lanes as they are.
struct Identity {
  HWY_INLINE HWY_ATTR VF operator()(VF lanes) const { return lanes; }
};

/// The lanes of the lower and of the upper half in turn.
struct Alternate {
  HWY_INLINE HWY_ATTR VF operator()(VF lanes) const {
    const DF df;
    constexpr std::int32_t half = hn::MaxLanes(DF()) / 2;
    alignas(64) std::int32_t order[2 * half];
    for (std::int32_t lane = 0; lane < half; ++lane) {
      order[2 * lane] = lane;
      order[2 * lane + 1] = half + lane;
    }
    return hn::TableLookupLanes(lanes, hn::SetTableIndices(df, order));
  }
};

HWY_INLINE HWY_ATTR V16 narrow_f16(VF value) {
  return hn::BitCast(D16(), hn::DemoteTo(hn::Rebind<hwy::float16_t, DF>(), value));
}

/// In the upper half of each lane, whose lower half is of no meaning.
HWY_INLINE HWY_ATTR VU round_bf16(VF value) {
  const DU du;
  const VU bits = hn::BitCast(du, value);
  const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const VU rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
  const VU quiet = hn::Or(bits, hn::Set(du, 0x400000));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), quiet, rounded);
}

/// In the lower half of each lane.
HWY_INLINE HWY_ATTR VU narrow_bf16_wide(VF value) { return hn::ShiftRight<16>(round_bf16(value)); }

HWY_INLINE HWY_ATTR V16 narrow_bf16(VF value) {
  const hn::RebindToSigned<DU> di;
  return hn::DemoteTo(D16(), hn::BitCast(di, narrow_bf16_wide(value)));
}

/// Rounds what lies between two numbers each: `value` is right wherever `differs` is 0.
template <class T>
struct Narrow;

template <>
struct Narrow<float> {
  using Vector = VF;
  using Differs = VU;
  struct Rounded {
    Vector value;
    Differs differs;
  };
  template <class Order>
  HWY_INLINE HWY_ATTR static Rounded round(const Between& lower, const Between& upper,
                                           Order order) {
    const DU du;
    const VF value = order(pack(lower.below, upper.below));
    const VF above = order(pack(lower.above, upper.above));
    return {value, hn::Xor(hn::BitCast(du, value), hn::BitCast(du, above))};
  }
  HWY_INLINE HWY_ATTR static bool is_decided(Differs differs) {
    return hn::AllTrue(DU(), hn::Eq(differs, hn::Zero(DU())));
  }
  template <bool kStream>
  HWY_INLINE HWY_ATTR static void store(Vector value, float* to) {
    if constexpr (kStream)
      hn::Stream(value, DF(), to);
    else
      hn::StoreU(value, DF(), to);
  }
  HWY_INLINE HWY_ATTR static void store_bits(Differs differs, float* to) {
    hn::StoreU(hn::BitCast(DF(), differs), DF(), to);
  }
};

/// What is too small for pack_odd counts as undecided.
template <class T>
struct Narrow16 {
  using Vector = V16;
  using Differs = V16;
  struct Rounded {
    Vector value;
    Differs differs;
  };
  template <class Order>
  HWY_INLINE HWY_ATTR static Rounded round(const Between& lower, const Between& upper,
                                           Order order) {
    const VF below = order(pack_odd(lower.below, upper.below));
    const VF above = order(pack_odd(lower.above, upper.above));
    const V16 value = narrow(below);
    const V16 is_small =
        narrow(hn::IfThenElseZero(hn::Lt(hn::Abs(above), hn::Set(DF(), 0x1p-120f)),
                                  hn::Set(DF(), 1.0f)));
    return {value, hn::Or(is_small, hn::Xor(value, narrow(above)))};
  }
  HWY_INLINE HWY_ATTR static bool is_decided(Differs differs) {
    return hn::AllTrue(D16(), hn::Eq(differs, hn::Zero(D16())));
  }
  template <bool kStream>
  HWY_INLINE HWY_ATTR static void store(Vector value, T* to) {
    auto* bits = reinterpret_cast<std::uint16_t*>(to);
    if constexpr (kStream)
      hn::Stream(value, D16(), bits);
    else
      hn::StoreU(value, D16(), bits);
  }
  HWY_INLINE HWY_ATTR static void store_bits(Differs differs, T* to) { store<false>(differs, to); }

  HWY_INLINE HWY_ATTR static V16 narrow(VF value) {
    if constexpr (std::is_same_v<T, F16>)
      return narrow_f16(value);
    else
      return narrow_bf16(value);
  }
};
template <>
struct Narrow<F16> : Narrow16<F16> {};
template <>
struct Narrow<BF16> : Narrow16<BF16> {};

}  // namespace posproof::optimized::core::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
