#include "optimized/rope.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "optimized/core/rounding.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimized/rope.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "optimized/core/pairs-inl.hpp"

#ifndef POSPROOF_OPTIMIZED_ROPE_TURN
#define POSPROOF_OPTIMIZED_ROPE_TURN
namespace posproof::optimized::rope {

/// What turns kTurn pairs of one token. Of the two products of a sum the one with the smaller
/// coefficient is rounded by itself and the other goes into a fused multiply-add, so that the first
/// rounding is of at most |x|/√2: docs/error-model.md, "Kernels". `swaps` is all ones where |sin| >
/// |cos|: there x1 and x2 change places.
inline constexpr std::size_t kTurn = 128;
struct Turn {
  alignas(64) float first_large[kTurn], first_small[kTurn], second_large[kTurn],
      second_small[kTurn];
  alignas(64) std::uint32_t swaps[kTurn];

  void set(std::size_t i, float cos, float sin) {
    const bool is_swapped = std::fabs(sin) > std::fabs(cos);
    first_large[i] = is_swapped ? -sin : cos;
    first_small[i] = is_swapped ? cos : -sin;
    second_large[i] = is_swapped ? sin : cos;
    second_small[i] = is_swapped ? cos : sin;
    swaps[i] = is_swapped ? ~0u : 0u;
  }
};

}  // namespace posproof::optimized::rope
#endif

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::optimized::rope::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace core::HWY_NAMESPACE;

constexpr std::size_t kLanes = hn::MaxLanes(DF());

struct Pair {
  VF first, second;
};

/// The lanes of `pairs` pairs, as far as whole vectors reach, turned at one place of every head.
struct Coefficients {
  VF first_large, first_small, second_large, second_small;
  hn::Mask<DF> swaps;

  HWY_INLINE HWY_ATTR Coefficients(const Turn& turn, std::size_t i)
      : first_large(hn::Load(DF(), turn.first_large + i)),
        first_small(hn::Load(DF(), turn.first_small + i)),
        second_large(hn::Load(DF(), turn.second_large + i)),
        second_small(hn::Load(DF(), turn.second_small + i)),
        swaps(hn::RebindMask(DF(), hn::Ne(hn::Load(DU(), turn.swaps + i), hn::Zero(DU())))) {}

  HWY_INLINE HWY_ATTR Pair turned(VF x1, VF x2) const {
    const VF large = hn::IfThenElse(swaps, x2, x1), small = hn::IfThenElse(swaps, x1, x2);
    return {hn::MulAdd(large, first_large, hn::Mul(small, first_small)),
            hn::MulAdd(small, second_large, hn::Mul(large, second_small))};
  }
};

HWY_INLINE HWY_ATTR void prefetch(const void* at) {
  hwy::Prefetch(static_cast<const char*>(at) + 4096);
}

template <class T>
struct Half {
  static constexpr std::size_t kPairs = kLanes;
  static HWY_INLINE HWY_ATTR void turn(const Coefficients& by, const T* x, T* y,
                                       std::size_t distance) {
    const Pair turned = by.turned(load(x), load(x + distance));
    save(turned.first, y);
    save(turned.second, y + distance);
  }
};

/// 32-bit lanes that hold both members of a pair: the even ones below, the odd ones above.
struct InterleavedBf16 {
  static constexpr std::size_t kPairs = kLanes;
  static HWY_INLINE HWY_ATTR void turn(const Coefficients& by, const BF16* x, BF16* y,
                                       std::size_t) {
    const DU du;
    const VU both = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(x));
    const VU high = hn::Set(du, 0xffff0000u);
    const Pair turned = by.turned(hn::BitCast(DF(), hn::ShiftLeft<16>(both)),
                                  hn::BitCast(DF(), hn::And(both, high)));
    const VU second = hn::ShiftLeft<16>(narrow_bf16_wide(turned.second));
    hn::StoreU(hn::Or(narrow_bf16_wide(turned.first), second), du,
               reinterpret_cast<std::uint32_t*>(y));
  }
};

/// Coefficients of single lanes: those of pair i at 2i and 2i + 1.
struct LaneCoefficients {
  VF large, small;
  hn::Mask<DF> swaps;

  HWY_INLINE HWY_ATTR LaneCoefficients(const Turn& turn, std::size_t i) {
    alignas(64) float l[kLanes], s[kLanes];
    alignas(64) std::uint32_t m[kLanes];
    for (std::size_t pair = 0; pair < kLanes / 2; ++pair) {
      l[2 * pair] = turn.first_large[i + pair];
      l[2 * pair + 1] = turn.second_large[i + pair];
      s[2 * pair] = turn.first_small[i + pair];
      s[2 * pair + 1] = turn.second_small[i + pair];
      m[2 * pair] = m[2 * pair + 1] = turn.swaps[i + pair];
    }
    large = hn::Load(DF(), l);
    small = hn::Load(DF(), s);
    swaps = hn::RebindMask(DF(), hn::Ne(hn::Load(DU(), m), hn::Zero(DU())));
  }
};

template <class T>
struct Interleaved {
  static constexpr std::size_t kPairs = kLanes / 2;
  static HWY_INLINE HWY_ATTR void turn(const LaneCoefficients& by, const T* x, T* y, std::size_t) {
    const VF own = load(x), other = hn::Shuffle2301(own);
    const VF large = hn::IfThenElse(by.swaps, other, own);
    const VF small = hn::IfThenElse(by.swaps, own, other);
    save(hn::MulAdd(large, by.large, hn::Mul(small, by.small)), y);
  }
};

/// Turns whole vectors of pairs from .. to of one token; returns the first pair that it left.
template <class Way, class By, std::size_t kLanesPerPair, class T>
HWY_INLINE HWY_ATTR std::size_t turn_token(const Heads<T>& heads, const T* x, T* y,
                                           const Turn& turn, std::size_t from, std::size_t to,
                                           std::size_t distance) {
  std::size_t i = from;
  for (; i + Way::kPairs <= to; i += Way::kPairs) {
    const By by(turn, i - from);
    const T* at = x + kLanesPerPair * i;
    T* into = y + kLanesPerPair * i;
    for (std::size_t h = 0; h < heads.heads; ++h) {
      prefetch(at);
      Way::turn(by, at, into, distance);
      at += heads.x_head_stride;
      into += heads.y_head_stride;
    }
  }
  return i;
}

template <class T>
HWY_ATTR std::size_t turn_pairs(const Heads<T>& heads, const T* x, T* y, const Turn& turn,
                                std::size_t from, std::size_t to, std::size_t pairs,
                                Layout layout) {
  core::ran_on = HWY_TARGET == HWY_AVX3 ? Isa::avx512 : Isa::avx2;
  if (layout == Layout::half)
    return turn_token<Half<T>, Coefficients, 1>(heads, x, y, turn, from, to, pairs);
  if constexpr (std::is_same_v<T, BF16>)
    return turn_token<InterleavedBf16, Coefficients, 2>(heads, x, y, turn, from, to, 0);
  else
    return turn_token<Interleaved<T>, LaneCoefficients, 2>(heads, x, y, turn, from, to, 0);
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

template <class T>
void turn_pair(const Turn& turn, std::size_t i, const T* x1, const T* x2, T* y1, T* y2) {
  const float first = core::widen(*x1), second = core::widen(*x2);
  const bool is_swapped = turn.swaps[i] != 0;
  const float large = is_swapped ? second : first, small = is_swapped ? first : second;
  *y1 = core::narrow<T>(std::fma(large, turn.first_large[i], small * turn.first_small[i]));
  *y2 = core::narrow<T>(std::fma(small, turn.second_large[i], large * turn.second_small[i]));
}

template <class T>
void rotate_token(const Heads<T>& heads, std::size_t token, const float* cos, const float* sin,
                  std::size_t pairs, Layout layout, bool inverse, Isa isa) {
  const T* x = heads.x + static_cast<std::ptrdiff_t>(token) * heads.x_token_stride;
  T* y = heads.y + static_cast<std::ptrdiff_t>(token) * heads.y_token_stride;
  Turn turn;
  for (std::size_t from = 0; from < pairs; from += kTurn) {
    const std::size_t to = std::min(from + kTurn, pairs);
    for (std::size_t i = from; i < to; ++i) turn.set(i - from, cos[i], inverse ? -sin[i] : sin[i]);
    std::size_t done = from;
    if (isa == Isa::avx512) done = N_AVX3::turn_pairs(heads, x, y, turn, from, to, pairs, layout);
    if (isa == Isa::avx2) done = N_AVX2::turn_pairs(heads, x, y, turn, from, to, pairs, layout);
    if (isa == Isa::scalar) core::ran_on = Isa::scalar;
    for (std::size_t h = 0; done < to && h < heads.heads; ++h) {
      const T* from_head = x + static_cast<std::ptrdiff_t>(h) * heads.x_head_stride;
      T* to_head = y + static_cast<std::ptrdiff_t>(h) * heads.y_head_stride;
      for (std::size_t i = done; i < to; ++i) {
        const std::size_t first = layout == Layout::half ? i : 2 * i;
        const std::size_t second = layout == Layout::half ? i + pairs : 2 * i + 1;
        turn_pair(turn, i - from, from_head + first, from_head + second, to_head + first,
                  to_head + second);
      }
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
  waves_.range(first, count, core::Rows<T>{sin, cos, stride});
}

template <class T, class Position>
void Angles::cos_sin(const Position* positions, std::size_t count, T* cos, T* sin,
                     std::ptrdiff_t stride) const noexcept {
  assert((positions != nullptr && cos != nullptr && sin != nullptr) || count == 0);
  waves_.list(positions, count, core::Rows<T>{sin, cos, stride});
}

F32Angles::F32Angles(std::size_t rotary_dim, double rope_theta, double factor, Isa isa)
    : waves_(f32_frequencies(rotary_dim, rope_theta, factor), isa) {}

void F32Angles::cos_sin(std::int64_t first, std::size_t count, float* cos, float* sin,
                        std::ptrdiff_t stride) const noexcept {
  waves_.range(first, count, {sin, cos, stride});
}

template <class T>
void rotate(const Heads<T>& heads, const float* cos, const float* sin, std::size_t pairs,
            std::ptrdiff_t stride, Layout layout, bool inverse, Isa isa) noexcept {
  assert(heads.tokens == 0 || heads.heads == 0 || (heads.x != nullptr && heads.y != nullptr));
  assert(2 * pairs <= heads.head_dim);
  for (std::size_t token = 0; token < heads.tokens; ++token) {
    const auto row = static_cast<std::ptrdiff_t>(token) * stride;
    rotate_token(heads, token, cos + row, sin + row, pairs, layout, inverse, isa);
  }
}

template <class T, class Position>
void apply(const Angles& angles, const Heads<T>& heads, const Position* positions, Layout layout,
           bool inverse) noexcept {
  assert(angles.pairs() <= kMostPairs && 2 * angles.pairs() <= heads.head_dim);
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
