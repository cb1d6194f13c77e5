#include "optimized/rope.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "optimized/core/checks.hpp"
#include "optimized/core/rounding.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimized/rope.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "optimized/core/pairs-inl.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::optimized::rope::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace core::HWY_NAMESPACE;

constexpr std::size_t kLanes = hn::MaxLanes(DF());

/// What turns one vector of lanes, or the two vectors of a pair, at one place of every head: the rule
/// of Turn below. `swaps` is true where |sin| > |cos|.
struct Turn {
  VF first_large, first_small, second_large, second_small;
  hn::Mask<DF> swaps;

  HWY_INLINE HWY_ATTR Turn(VF cos, VF sin, VF minus_sin)
      : swaps(hn::Gt(hn::Abs(sin), hn::Abs(cos))) {
    first_large = hn::IfThenElse(swaps, minus_sin, cos);
    first_small = hn::IfThenElse(swaps, cos, minus_sin);
    second_large = hn::IfThenElse(swaps, sin, cos);
    second_small = hn::IfThenElse(swaps, cos, sin);
  }
};

HWY_INLINE HWY_ATTR VF negated(VF value, bool is_negated) {
  return is_negated ? hn::Neg(value) : value;
}

/// x1 and x2 in vectors of their own.
template <class T>
struct Half {
  static constexpr std::size_t kPairs = kLanes;
  Turn by;

  HWY_INLINE HWY_ATTR Half(const float* cos, const float* sin, bool inverse)
      : by(hn::LoadU(DF(), cos), negated(hn::LoadU(DF(), sin), inverse),
           negated(hn::LoadU(DF(), sin), !inverse)) {}

  HWY_INLINE HWY_ATTR void turned(VF x1, VF x2, VF& y1, VF& y2) const {
    const VF large = hn::IfThenElse(by.swaps, x2, x1), small = hn::IfThenElse(by.swaps, x1, x2);
    y1 = hn::MulAdd(large, by.first_large, hn::Mul(small, by.first_small));
    y2 = hn::MulAdd(small, by.second_large, hn::Mul(large, by.second_small));
  }
  HWY_INLINE HWY_ATTR void turn(const T* x, T* y, std::size_t distance) const {
    VF y1, y2;
    turned(load(x), load(x + distance), y1, y2);
    save(y1, y);
    save(y2, y + distance);
  }
};

/// Two neighbours in one 32-bit lane become two floats, and back, without a shuffle.
struct Bf16Neighbours {
  VF lower, upper;

  static HWY_INLINE HWY_ATTR Bf16Neighbours load(const BF16* from) {
    const DU du;
    const VU both = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(from));
    return {hn::BitCast(DF(), hn::ShiftLeft<16>(both)),
            hn::BitCast(DF(), hn::And(both, hn::Set(du, 0xffff0000u)))};
  }
  HWY_INLINE HWY_ATTR void save(BF16* to) const {
    const DU du;
    const VU high = hn::Set(du, 0xffff0000u);
    hn::StoreU(hn::OrAnd(narrow_bf16_wide(lower), round_bf16(upper), high), du,
               reinterpret_cast<std::uint32_t*>(to));
  }
};

/// x1 below and x2 above.
struct InterleavedBf16 : Half<BF16> {
  HWY_INLINE HWY_ATTR InterleavedBf16(const float* cos, const float* sin, bool inverse)
      : Half<BF16>(cos, sin, inverse) {}

  HWY_INLINE HWY_ATTR void turn(const BF16* x, BF16* y, std::size_t) const {
    const Bf16Neighbours in = Bf16Neighbours::load(x);
    Bf16Neighbours out;
    turned(in.lower, in.upper, out.lower, out.upper);
    out.save(y);
  }
};

/// Even pairs below and odd pairs above, x1 and x2 in vectors of their own.
struct HalfBf16 {
  static constexpr std::size_t kPairs = 2 * kLanes;
  Half<BF16> even, odd;

  struct Apart {
    alignas(64) float even[kLanes], odd[kLanes];
    explicit Apart(const float* values) {
      for (std::size_t i = 0; i < kLanes; ++i) even[i] = values[2 * i], odd[i] = values[2 * i + 1];
    }
  };

  HWY_INLINE HWY_ATTR HalfBf16(const float* cos, const float* sin, bool inverse)
      : HalfBf16(Apart(cos), Apart(sin), inverse) {}
  HWY_INLINE HWY_ATTR HalfBf16(const Apart& cos, const Apart& sin, bool inverse)
      : even(cos.even, sin.even, inverse), odd(cos.odd, sin.odd, inverse) {}

  HWY_INLINE HWY_ATTR void turn(const BF16* x, BF16* y, std::size_t distance) const {
    const Bf16Neighbours x1 = Bf16Neighbours::load(x), x2 = Bf16Neighbours::load(x + distance);
    Bf16Neighbours y1, y2;
    even.turned(x1.lower, x2.lower, y1.lower, y2.lower);
    odd.turned(x1.upper, x2.upper, y1.upper, y2.upper);
    y1.save(y);
    y2.save(y + distance);
  }
};

/// x1 and x2 in turn: lane 2i has the first coefficients of pair i, lane 2i + 1 the second.
template <class T>
struct Interleaved {
  static constexpr std::size_t kPairs = kLanes / 2;
  VF large, small;
  hn::Mask<DF> swaps;

  HWY_INLINE HWY_ATTR static VF twice(const float* values) {
    const DF df;
    alignas(64) std::int32_t half[kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) half[lane] = static_cast<std::int32_t>(lane / 2);
    const auto lower = hn::LoadU(hn::Half<DF>(), values);
    return hn::TableLookupLanes(hn::Combine(df, lower, lower), hn::SetTableIndices(df, half));
  }

  HWY_INLINE HWY_ATTR Interleaved(const float* cos, const float* sin, bool inverse) {
    const VF c = twice(cos), s = negated(twice(sin), inverse);
    const Turn by(c, s, hn::Neg(s));
    large = hn::OddEven(by.second_large, by.first_large);
    small = hn::OddEven(by.second_small, by.first_small);
    swaps = by.swaps;
  }
  HWY_INLINE HWY_ATTR void turn(const T* x, T* y, std::size_t) const {
    const VF own = load(x), other = hn::Shuffle2301(own);
    const VF first = hn::IfThenElse(swaps, other, own), second = hn::IfThenElse(swaps, own, other);
    save(hn::MulAdd(first, large, hn::Mul(second, small)), y);
  }
};

/// Memory is asked for this far ahead, where there is so much that it is in no near cache.
constexpr std::size_t kAhead = 16384, kFarBytes = std::size_t{2} << 20;

/// The places of every head that kWays vectors of coefficients turn.
template <class Way, std::size_t kWays, std::size_t kLanesPerPair, bool kIsFar, class T>
HWY_INLINE HWY_ATTR void turn_heads(const Heads<T>& heads, const T* x, T* y, const float* cos,
                                    const float* sin, bool inverse, std::size_t distance) {
  constexpr std::size_t kPairs = Way::kPairs, kElements = kLanesPerPair * kPairs;
  const Way a(cos, sin, inverse);
  const Way b(cos + (kWays > 1 ? kPairs : 0), sin + (kWays > 1 ? kPairs : 0), inverse);
  const Way c(cos + (kWays > 2 ? 2 * kPairs : 0), sin + (kWays > 2 ? 2 * kPairs : 0), inverse);
  const Way e(cos + (kWays > 2 ? 3 * kPairs : 0), sin + (kWays > 2 ? 3 * kPairs : 0), inverse);
  const std::ptrdiff_t x_stride = heads.x_head_stride, y_stride = heads.y_head_stride;
  for (std::size_t h = heads.heads; h > 0; --h) {
    for (std::size_t line = 0; kIsFar && line < kWays * kElements * sizeof(T); line += 64) {
      hwy::Prefetch(reinterpret_cast<const char*>(x) + kAhead + line);
      if constexpr (kLanesPerPair == 1)
        hwy::Prefetch(reinterpret_cast<const char*>(x + distance) + kAhead + line);
    }
    a.turn(x, y, distance);
    if constexpr (kWays > 1) b.turn(x + kElements, y + kElements, distance);
    if constexpr (kWays > 2) {
      c.turn(x + 2 * kElements, y + 2 * kElements, distance);
      e.turn(x + 3 * kElements, y + 3 * kElements, distance);
    }
    x += x_stride;
    y += y_stride;
  }
}

/// Coefficients stay in registers across the heads, of as many vectors as the registers hold.
template <class Way, std::size_t kLanesPerPair, bool kIsFar, class T>
HWY_INLINE HWY_ATTR std::size_t turn_some(const Heads<T>& heads, const T* x, T* y,
                                          const float* cos, const float* sin, std::size_t pairs,
                                          bool inverse, std::size_t distance) {
  constexpr std::size_t kMostWays =
      (HWY_TARGET == HWY_AVX3 ? 4 : 2) / (std::is_same_v<Way, HalfBf16> ? 2 : 1);
  std::size_t i = 0;
  for (; i + kMostWays * Way::kPairs <= pairs; i += kMostWays * Way::kPairs)
    turn_heads<Way, kMostWays, kLanesPerPair, kIsFar>(heads, x + kLanesPerPair * i, y + kLanesPerPair * i,
                                              cos + i, sin + i, inverse, distance);
  for (; i + Way::kPairs <= pairs; i += Way::kPairs)
    turn_heads<Way, 1, kLanesPerPair, kIsFar>(heads, x + kLanesPerPair * i, y + kLanesPerPair * i, cos + i,
                                      sin + i, inverse, distance);
  return i;
}

template <class Way, std::size_t kLanesPerPair, class T>
HWY_INLINE HWY_ATTR std::size_t turn_token(const Heads<T>& heads, const T* x, T* y,
                                           const float* cos, const float* sin, std::size_t pairs,
                                           bool inverse, std::size_t distance) {
  return heads.tokens * heads.heads * heads.head_dim * sizeof(T) >= kFarBytes
             ? turn_some<Way, kLanesPerPair, true>(heads, x, y, cos, sin, pairs, inverse, distance)
             : turn_some<Way, kLanesPerPair, false>(heads, x, y, cos, sin, pairs, inverse,
                                                    distance);
}

/// Whole vectors of pairs of one token; returns the first pair that is left.
template <class T>
HWY_ATTR std::size_t turn_pairs(const Heads<T>& heads, const T* x, T* y, const float* cos,
                                const float* sin, std::size_t pairs, Layout layout, bool inverse) {
  core::ran_on = HWY_TARGET == HWY_AVX3 ? Isa::avx512 : Isa::avx2;
  using InHalves = std::conditional_t<std::is_same_v<T, BF16>, HalfBf16, Half<T>>;
  if (layout == Layout::half)
    return turn_token<InHalves, 1>(heads, x, y, cos, sin, pairs, inverse, pairs);
  if constexpr (std::is_same_v<T, BF16>)
    return turn_token<InterleavedBf16, 2>(heads, x, y, cos, sin, pairs, inverse, 0);
  else
    return turn_token<Interleaved<T>, 2>(heads, x, y, cos, sin, pairs, inverse, 0);
}

}  // namespace posproof::optimized::rope::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace posproof::optimized::rope {
namespace {

core::Exact frequencies(std::size_t rotary_dim, double rope_theta, double factor) {
  if (rotary_dim < 2 || rotary_dim % 2 != 0)
    throw std::invalid_argument("rotary_dim: found " + std::to_string(rotary_dim) +
                                ", allowed is an even number ≥ 2");
  const std::size_t pairs = rotary_dim / 2;
  return {pairs, rope_theta, static_cast<double>(pairs), factor};
}

/// power rounded to f32: a double is within one place of it, and only if that leaves the f32 open
/// the exact path decides.
float f32_power(float base, float exponent) {
  const double power = std::pow(static_cast<double>(base), static_cast<double>(exponent));
  const auto below = static_cast<float>(power * (1 - 0x1p-51));
  if (below == static_cast<float>(power * (1 + 0x1p-51))) return below;
  return static_cast<float>(core::power(base, exponent));
}

std::vector<float> f32_frequencies(std::size_t rotary_dim, double rope_theta, double factor) {
  frequencies(rotary_dim, rope_theta, factor);  // refuses
  std::vector<float> inv_freq(rotary_dim / 2);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary_dim);
    inv_freq[i] = 1.0f / f32_power(static_cast<float>(rope_theta), exponent) /
                  static_cast<float>(factor);
  }
  return inv_freq;
}

/// What turns one pair. Of the two products of a sum the one with the smaller coefficient is rounded
/// by itself and the other goes into a fused multiply-add, so that the first rounding is of at most
/// |x|/√2: docs/error-model.md, "Kernels". Where |sin| > |cos| x1 and x2 change places.
struct Turn {
  float cos, sin;

  template <class T>
  void operator()(const T* x1, const T* x2, T* y1, T* y2) const {
    const float first = core::widen(*x1), second = core::widen(*x2);
    if (std::fabs(sin) > std::fabs(cos)) {
      *y1 = core::narrow<T>(std::fma(second, -sin, first * cos));
      *y2 = core::narrow<T>(std::fma(first, sin, second * cos));
    } else {
      *y1 = core::narrow<T>(std::fma(first, cos, second * -sin));
      *y2 = core::narrow<T>(std::fma(second, cos, first * sin));
    }
  }
};

[[maybe_unused]] bool is_stride(std::ptrdiff_t stride, std::size_t width, std::size_t rows) {
  return rows < 2 || std::abs(stride) >= static_cast<std::ptrdiff_t>(width);
}

template <class T>
bool is_empty(const Heads<T>& heads) {
  return heads.tokens == 0 || heads.heads == 0 || heads.head_dim == 0;
}

template <class T>
void check([[maybe_unused]] const Heads<T>& heads, [[maybe_unused]] std::size_t pairs) {
  assert(is_empty(heads) || (heads.x != nullptr && heads.y != nullptr));
  assert(heads.tokens == 0 || heads.heads == 0 || 2 * pairs <= heads.head_dim);
  assert(core::are_rows_apart(heads.tokens, heads.y_token_stride, heads.heads, heads.y_head_stride,
                              heads.head_dim) &&
         "stride");
  assert(heads.x == heads.y ? heads.x_token_stride == heads.y_token_stride &&
                                  heads.x_head_stride == heads.y_head_stride
                            : core::are_apart({heads.x, heads.tokens, heads.x_token_stride,
                                               heads.heads, heads.x_head_stride, heads.head_dim},
                                              {heads.y, heads.tokens, heads.y_token_stride,
                                               heads.heads, heads.y_head_stride, heads.head_dim}));
}

template <class T>
void rotate_token(const Heads<T>& heads, std::size_t token, const float* cos, const float* sin,
                  std::size_t pairs, Layout layout, bool inverse, Isa isa) {
  const T* x = heads.x + static_cast<std::ptrdiff_t>(token) * heads.x_token_stride;
  T* y = heads.y + static_cast<std::ptrdiff_t>(token) * heads.y_token_stride;
  std::size_t done = 0;
  core::ran_on = Isa::scalar;
  if (isa == Isa::avx512)
    done = N_AVX3::turn_pairs(heads, x, y, cos, sin, pairs, layout, inverse);
  if (isa == Isa::avx2) done = N_AVX2::turn_pairs(heads, x, y, cos, sin, pairs, layout, inverse);
  for (std::size_t i = done; i < pairs; ++i) {
    const Turn turn{cos[i], inverse ? -sin[i] : sin[i]};
    const std::size_t first = layout == Layout::half ? i : 2 * i;
    const std::size_t second = layout == Layout::half ? i + pairs : 2 * i + 1;
    for (std::size_t h = 0; h < heads.heads; ++h) {
      const T* from = x + static_cast<std::ptrdiff_t>(h) * heads.x_head_stride;
      T* to = y + static_cast<std::ptrdiff_t>(h) * heads.y_head_stride;
      turn(from + first, from + second, to + first, to + second);
    }
  }
  if (heads.x == heads.y || 2 * pairs == heads.head_dim) return;
  for (std::size_t h = 0; h < heads.heads; ++h)
    std::memcpy(static_cast<void*>(y + static_cast<std::ptrdiff_t>(h) * heads.y_head_stride +
                                   2 * pairs),
                x + static_cast<std::ptrdiff_t>(h) * heads.x_head_stride + 2 * pairs,
                (heads.head_dim - 2 * pairs) * sizeof(T));
}

}  // namespace

Angles::Angles(std::size_t rotary_dim, double rope_theta, double factor, Isa isa)
    : waves_(frequencies(rotary_dim, rope_theta, factor), {1, 0}, isa) {}

Angles::Angles(std::span<const double> inv_freq, double attention_factor, Isa isa)
    : waves_(core::Exact(inv_freq), {attention_factor, 0}, isa) {}

template <class T>
void Angles::cos_sin(std::int64_t first, std::size_t count, T* cos, T* sin,
                     std::ptrdiff_t stride) const noexcept {
  assert((cos != nullptr && sin != nullptr) || count == 0);
  assert(is_stride(stride, pairs(), count) && core::are_positions(first, count));
  waves_.range(first, count, core::Rows<T>{sin, cos, stride});
}

template <class T, class Position>
void Angles::cos_sin(const Position* positions, std::size_t count, T* cos, T* sin,
                     std::ptrdiff_t stride) const noexcept {
  assert((positions != nullptr && cos != nullptr && sin != nullptr) || count == 0);
  assert(is_stride(stride, pairs(), count) && core::are_positions(positions, count));
  waves_.list(positions, count, core::Rows<T>{sin, cos, stride});
}

F32Angles::F32Angles(std::size_t rotary_dim, double rope_theta, double factor, Isa isa)
    : waves_(f32_frequencies(rotary_dim, rope_theta, factor), isa) {}

void F32Angles::cos_sin(std::int64_t first, std::size_t count, float* cos, float* sin,
                        std::ptrdiff_t stride) const noexcept {
  assert((cos != nullptr && sin != nullptr) || count == 0);
  assert(is_stride(stride, pairs(), count) && core::are_positions(first, count));
  waves_.range(first, count, {sin, cos, stride});
}

template <class T>
void rotate(const Heads<T>& heads, const float* cos, const float* sin, std::size_t pairs,
            std::ptrdiff_t stride, Layout layout, bool inverse, Isa isa) noexcept {
  assert(is_empty(heads) || (cos != nullptr && sin != nullptr) || pairs == 0);
  assert(is_empty(heads) || is_stride(stride, pairs, heads.tokens));
  check(heads, pairs);
  for (std::size_t token = 0; token < heads.tokens; ++token) {
    const auto row = static_cast<std::ptrdiff_t>(token) * stride;
    rotate_token(heads, token, cos + row, sin + row, pairs, layout, inverse, isa);
  }
}

template <class T, class Position>
void apply(const Angles& angles, const Heads<T>& heads, const Position* positions, Layout layout,
           bool inverse) noexcept {
  assert(angles.pairs() <= kMostPairs);
  assert(positions != nullptr || heads.tokens == 0);
  assert(core::are_positions(positions, heads.tokens));
  check(heads, angles.pairs());
  alignas(64) float cos[kMostPairs], sin[kMostPairs];
  for (std::size_t token = 0; token < heads.tokens; ++token) {
    angles.cos_sin(positions + token, 1, cos, sin, static_cast<std::ptrdiff_t>(kMostPairs));
    rotate_token(heads, token, cos, sin, angles.pairs(), layout, inverse, angles.isa());
  }
}

#define POSPROOF_ROPE(T)                                                                          \
  template void Angles::cos_sin(std::int64_t, std::size_t, T*, T*, std::ptrdiff_t)                \
      const noexcept;                                                                             \
  template void Angles::cos_sin(const std::int32_t*, std::size_t, T*, T*, std::ptrdiff_t)         \
      const noexcept;                                                                             \
  template void Angles::cos_sin(const std::int64_t*, std::size_t, T*, T*, std::ptrdiff_t)         \
      const noexcept;                                                                             \
  template void rotate(const Heads<T>&, const float*, const float*, std::size_t, std::ptrdiff_t,  \
                       Layout, bool, Isa) noexcept;                                               \
  template void apply(const Angles&, const Heads<T>&, const std::int32_t*, Layout, bool) noexcept; \
  template void apply(const Angles&, const Heads<T>&, const std::int64_t*, Layout, bool) noexcept;
POSPROOF_ROPE(float)
POSPROOF_ROPE(F16)
POSPROOF_ROPE(BF16)

}  // namespace posproof::optimized::rope
#endif
