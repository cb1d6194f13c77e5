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

constexpr Isa kIsa = HWY_TARGET == HWY_AVX3 ? Isa::avx512 : Isa::avx2;

/// Bytes up to the next cache line.
inline std::size_t bytes_to_line(const void* at) {
  return static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(at) & 63);
}

HWY_ATTR void copy_bytes(const std::uint8_t* from, std::uint8_t* to, std::size_t bytes,
                         bool is_streamed) {
  ran_on = kIsa;
  if (!is_streamed || bytes < 256) {
    std::memcpy(to, from, bytes);
    return;
  }
  const hn::ScalableTag<std::uint8_t> d8;
  constexpr std::size_t kBytes = hn::MaxLanes(d8);
  const std::size_t head = bytes_to_line(to);
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + 64 <= bytes; i += 64)
    for (std::size_t part = 0; part < 64; part += kBytes)
      hn::Stream(hn::LoadU(d8, from + i + part), d8, to + i + part);
  std::memcpy(to + i, from + i, bytes - i);
}

template <class T, class Addend>
HWY_ATTR void add(const T* x, const Addend* addend, T* to, std::size_t count, bool is_streamed) {
  ran_on = kIsa;
  constexpr std::size_t kLanes = hn::MaxLanes(DF());
  const auto one = [&](std::size_t at) HWY_ATTR {
    to[at] = narrow<T>(widen(x[at]) + widen(addend[at]));
  };
  std::size_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    if (is_streamed && bytes_to_line(to) % sizeof(T) == 0) {
      for (const std::size_t head = std::min(count, bytes_to_line(to) / sizeof(T)); i < head; ++i)
        one(i);
      for (; i + kLanes <= count; i += kLanes)
        hn::Stream(hn::Add(load(x + i), load(addend + i)), DF(), to + i);
    }
  }
  for (; i + kLanes <= count; i += kLanes) {
    hwy::Prefetch(reinterpret_cast<const char*>(x + i) + 4096);
    save(hn::Add(load(x + i), load(addend + i)), to + i);
  }
  for (; i < count; ++i) one(i);
}

}  // namespace posproof::optimized::core::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace posproof::optimized::core {

template <class T>
void copy_row(Isa isa, const T* from, T* to, std::size_t count, bool is_streamed) noexcept {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(from);
  auto* into = reinterpret_cast<std::uint8_t*>(to);
  switch (isa) {
    case Isa::avx512: return N_AVX3::copy_bytes(bytes, into, count * sizeof(T), is_streamed);
    case Isa::avx2: return N_AVX2::copy_bytes(bytes, into, count * sizeof(T), is_streamed);
    case Isa::scalar: break;
  }
  ran_on = Isa::scalar;
  std::memcpy(into, bytes, count * sizeof(T));
}

template <class T, class Addend>
void add_row(Isa isa, const T* x, const Addend* addend, T* to, std::size_t count,
             bool is_streamed) noexcept {
  switch (isa) {
    case Isa::avx512: return N_AVX3::add(x, addend, to, count, is_streamed);
    case Isa::avx2: return N_AVX2::add(x, addend, to, count, is_streamed);
    case Isa::scalar: break;
  }
  ran_on = Isa::scalar;
  for (std::size_t i = 0; i < count; ++i) to[i] = narrow<T>(widen(x[i]) + widen(addend[i]));
}

void finish_streaming() noexcept { hwy::FlushStream(); }

template void copy_row(Isa, const float*, float*, std::size_t, bool) noexcept;
template void copy_row(Isa, const F16*, F16*, std::size_t, bool) noexcept;
template void copy_row(Isa, const BF16*, BF16*, std::size_t, bool) noexcept;
template void add_row(Isa, const float*, const float*, float*, std::size_t, bool) noexcept;
template void add_row(Isa, const F16*, const float*, F16*, std::size_t, bool) noexcept;
template void add_row(Isa, const BF16*, const float*, BF16*, std::size_t, bool) noexcept;
template void add_row(Isa, const F16*, const F16*, F16*, std::size_t, bool) noexcept;
template void add_row(Isa, const BF16*, const BF16*, BF16*, std::size_t, bool) noexcept;

}  // namespace posproof::optimized::core
#endif
