#include "optimized/core/rows.hpp"

#include <algorithm>
#include <cstring>

#include "optimized/core/rounding.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimized/core/rows.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "optimized/core/pairs-inl.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::optimized::core::HWY_NAMESPACE {

/// What is changed in place is asked for this far ahead.
constexpr std::size_t kAhead = 16384;
constexpr Isa kIsa = HWY_TARGET == HWY_AVX3 ? Isa::avx512 : Isa::avx2;

/// Bytes up to the next cache line.
inline std::size_t bytes_to_line(const void* at) {
  return static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(at) & 63);
}

HWY_ATTR void copy_bytes(const std::uint8_t* from, std::uint8_t* to, std::size_t bytes,
                         bool is_streamed, const std::uint8_t* ahead) {
  ran_on = kIsa;
  if (ahead == nullptr) ahead = from;
  if (!is_streamed || bytes < 256) {
    for (std::size_t line = 0; ahead != from && line < bytes; line += 64)
      hwy::Prefetch(ahead + line);
    std::memcpy(to, from, bytes);
    return;
  }
  const hn::ScalableTag<std::uint8_t> d8;
  constexpr std::size_t kBytes = hn::MaxLanes(d8);
  const std::size_t head = bytes_to_line(to);
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + 64 <= bytes; i += 64) {
    hwy::Prefetch(ahead + i);
    for (std::size_t part = 0; part < 64; part += kBytes)
      hn::Stream(hn::LoadU(d8, from + i + part), d8, to + i + part);
  }
  std::memcpy(to + i, from + i, bytes - i);
}

template <bool kStream, class V, class D, class To>
HWY_INLINE HWY_ATTR void put(V value, D d, To* to) {
  if constexpr (kStream)
    hn::Stream(value, d, to);
  else
    hn::StoreU(value, d, to);
}

/// Adds one vector of floats, or what makes one vector of 16 bits.
template <class T, class Addend>
struct Adder {
  static constexpr std::size_t kLanes = hn::MaxLanes(DF());
  template <bool kStream>
  HWY_INLINE HWY_ATTR static void step(const T* x, const Addend* addend, T* to) {
    const VF sum = hn::Add(load(x), load(addend));
    if constexpr (std::is_same_v<T, float>)
      put<kStream>(sum, DF(), to);
    else if constexpr (std::is_same_v<T, F16>)
      put<kStream>(narrow_f16(sum), D16(), reinterpret_cast<std::uint16_t*>(to));
    else
      put<kStream>(narrow_bf16(sum), D16(), reinterpret_cast<std::uint16_t*>(to));
  }
};

/// The even and the odd numbers of a vector, which come and go without a shuffle.
template <>
struct Adder<BF16, BF16> {
  static constexpr std::size_t kLanes = 2 * hn::MaxLanes(DF());
  template <bool kStream>
  HWY_INLINE HWY_ATTR static void step(const BF16* x, const BF16* addend, BF16* to) {
    const DU du;
    const DF df;
    const VU upper = hn::Set(du, 0xffff0000u);
    const VU a = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(x));
    const VU b = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(addend));
    const VU even = round_bf16(
        hn::Add(hn::BitCast(df, hn::ShiftLeft<16>(a)), hn::BitCast(df, hn::ShiftLeft<16>(b))));
    const VU odd =
        round_bf16(hn::Add(hn::BitCast(df, hn::And(a, upper)), hn::BitCast(df, hn::And(b, upper))));
    put<kStream>(hn::Or(hn::ShiftRight<16>(even), hn::And(odd, upper)), du,
                 reinterpret_cast<std::uint32_t*>(to));
  }
};

template <class T, class Addend>
HWY_ATTR void add(const T* x, const Addend* addend, T* to, std::size_t count, bool is_streamed,
                  const Addend* ahead) {
  ran_on = kIsa;
  using Add = Adder<T, Addend>;
  constexpr std::size_t kLanes = Add::kLanes;
  if (ahead == nullptr) ahead = addend;
  const auto one = [&](std::size_t at)
                       HWY_ATTR { to[at] = narrow<T>(widen(x[at]) + widen(addend[at])); };
  std::size_t i = 0;
  if (is_streamed && bytes_to_line(to) % sizeof(T) == 0) {
    for (const std::size_t head = std::min(count, bytes_to_line(to) / sizeof(T)); i < head; ++i)
      one(i);
    for (; i + kLanes <= count; i += kLanes) {
      hwy::Prefetch(ahead + i);
      Add::template step<true>(x + i, addend + i, to + i);
    }
  }
  for (; i + kLanes <= count; i += kLanes) {
    hwy::Prefetch(reinterpret_cast<const char*>(x + i) + kAhead);
    hwy::Prefetch(ahead + i);
    Add::template step<false>(x + i, addend + i, to + i);
  }
  for (; i < count; ++i) one(i);
}

}  // namespace posproof::optimized::core::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace posproof::optimized::core {

template <class T>
void copy_row(Isa isa, const T* from, T* to, std::size_t count, bool is_streamed,
              const T* ahead) noexcept {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(from);
  const auto* next = reinterpret_cast<const std::uint8_t*>(ahead);
  auto* into = reinterpret_cast<std::uint8_t*>(to);
  switch (isa) {
    case Isa::avx512:
      return N_AVX3::copy_bytes(bytes, into, count * sizeof(T), is_streamed, next);
    case Isa::avx2:
      return N_AVX2::copy_bytes(bytes, into, count * sizeof(T), is_streamed, next);
    case Isa::scalar:
      break;
  }
  ran_on = Isa::scalar;
  std::memcpy(into, bytes, count * sizeof(T));
}

template <class T, class Addend>
void add_row(Isa isa, const T* x, const Addend* addend, T* to, std::size_t count, bool is_streamed,
             const Addend* ahead) noexcept {
  switch (isa) {
    case Isa::avx512:
      return N_AVX3::add(x, addend, to, count, is_streamed, ahead);
    case Isa::avx2:
      return N_AVX2::add(x, addend, to, count, is_streamed, ahead);
    case Isa::scalar:
      break;
  }
  ran_on = Isa::scalar;
  for (std::size_t i = 0; i < count; ++i) to[i] = narrow<T>(widen(x[i]) + widen(addend[i]));
}

void finish_streaming() noexcept { hwy::FlushStream(); }

template void copy_row(Isa, const float*, float*, std::size_t, bool, const float*) noexcept;
template void copy_row(Isa, const F16*, F16*, std::size_t, bool, const F16*) noexcept;
template void copy_row(Isa, const BF16*, BF16*, std::size_t, bool, const BF16*) noexcept;
template void add_row(Isa, const float*, const float*, float*, std::size_t, bool,
                      const float*) noexcept;
template void add_row(Isa, const F16*, const float*, F16*, std::size_t, bool,
                      const float*) noexcept;
template void add_row(Isa, const BF16*, const float*, BF16*, std::size_t, bool,
                      const float*) noexcept;
template void add_row(Isa, const F16*, const F16*, F16*, std::size_t, bool, const F16*) noexcept;
template void add_row(Isa, const BF16*, const BF16*, BF16*, std::size_t, bool,
                      const BF16*) noexcept;

}  // namespace posproof::optimized::core
#endif
