#include "optimized/bench/floors.hpp"

#include <cstring>

#include "optimized/core/isa.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimized/bench/floors.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<std::uint32_t>;
constexpr D d;
constexpr std::size_t kLanes = hn::MaxLanes(d);
using V = hn::Vec<D>;

/// Memory is asked for this far ahead: what rope.cpp found best.
constexpr std::size_t kAhead = 16384 / sizeof(std::uint32_t);

/// to[i] = value(i), a cache line at a time.
template <Stores kStores, class Value, class Ask>
HWY_INLINE HWY_ATTR void lines(std::uint32_t* to, std::size_t count, const Value& value,
                               const Ask& ask) {
  for (std::size_t i = 0; i < count; i += 16) {
    if constexpr (kStores == Stores::ahead) ask(i + kAhead);
    for (std::size_t part = i; part < i + 16; part += kLanes) {
      if constexpr (kStores == Stores::streamed)
        hn::Stream(value(part), d, to + part);
      else
        hn::Store(value(part), d, to + part);
    }
  }
  if constexpr (kStores == Stores::streamed) hwy::FlushStream();
}

template <class Value, class Ask>
HWY_INLINE HWY_ATTR void write(std::uint32_t* to, std::size_t count, Stores stores,
                               const Value& value, const Ask& ask) {
  switch (stores) {
    case Stores::plain:
      return lines<Stores::plain>(to, count, value, ask);
    case Stores::streamed:
      return lines<Stores::streamed>(to, count, value, ask);
    case Stores::ahead:
      return lines<Stores::ahead>(to, count, value, ask);
  }
}

#define POSPROOF_LAMBDA HWY_ATTR __attribute__((always_inline))

HWY_ATTR void fill(std::uint32_t* to, std::size_t count, Stores stores) {
  const V ones = hn::Set(d, 0x3f800000u);
  write(
      to, count, stores, [=](std::size_t) POSPROOF_LAMBDA { return ones; },
      [](std::size_t) POSPROOF_LAMBDA {});
}

HWY_ATTR void change(std::uint32_t* at, std::size_t count, Stores stores) {
  const V sign = hn::Set(d, 0x80000000u);
  write(
      at, count, stores,
      [=](std::size_t i) POSPROOF_LAMBDA { return hn::Xor(hn::Load(d, at + i), sign); },
      [=](std::size_t i) POSPROOF_LAMBDA { hwy::Prefetch(at + i); });
}

HWY_ATTR void copy(const std::uint32_t* from, std::uint32_t* to, std::size_t count, Stores stores) {
  write(
      to, count, stores, [=](std::size_t i) POSPROOF_LAMBDA { return hn::Load(d, from + i); },
      [=](std::size_t i) POSPROOF_LAMBDA { hwy::Prefetch(from + i); });
}

HWY_ATTR void combine(const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* to,
                      std::size_t count, Stores stores) {
  write(
      to, count, stores,
      [=](std::size_t i)
          POSPROOF_LAMBDA { return hn::Xor(hn::Load(d, a + i), hn::Load(d, b + i)); },
      [=](std::size_t i) POSPROOF_LAMBDA {
        hwy::Prefetch(a + i);
        hwy::Prefetch(b + i);
      });
}

HWY_ATTR std::uint32_t read(const std::uint32_t* from, std::size_t count) {
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::size_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    hwy::Prefetch(from + i + kAhead);
    s0 = hn::Add(s0, hn::Load(d, from + i));
    s1 = hn::Add(s1, hn::Load(d, from + i + kLanes));
    s2 = hn::Add(s2, hn::Load(d, from + i + 2 * kLanes));
    s3 = hn::Add(s3, hn::Load(d, from + i + 3 * kLanes));
  }
  return hn::GetLane(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

/// 12 chains: latency 4 or 5 times throughput 2.
HWY_ATTR double multiply_add(std::size_t times, float* keep) {
  const hn::ScalableTag<float> df;
  const auto a = hn::LoadU(df, keep), b = hn::Set(df, 0.25f);
  auto s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a,
       s11 = a;
  for (std::size_t i = 0; i < times; ++i) {
    s0 = hn::MulAdd(s0, b, a), s1 = hn::MulAdd(s1, b, a), s2 = hn::MulAdd(s2, b, a);
    s3 = hn::MulAdd(s3, b, a), s4 = hn::MulAdd(s4, b, a), s5 = hn::MulAdd(s5, b, a);
    s6 = hn::MulAdd(s6, b, a), s7 = hn::MulAdd(s7, b, a), s8 = hn::MulAdd(s8, b, a);
    s9 = hn::MulAdd(s9, b, a), s10 = hn::MulAdd(s10, b, a), s11 = hn::MulAdd(s11, b, a);
  }
  s0 = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(s4, s5));
  s6 = hn::Add(hn::Add(hn::Add(s6, s7), hn::Add(s8, s9)), hn::Add(s10, s11));
  hn::StoreU(hn::Add(s0, s6), df, keep);
  return 2.0 * 12 * static_cast<double>(kLanes * times);
}

}  // namespace posproof::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace posproof::bench {
namespace {

optimized::Isa widest() {
  static const optimized::Isa isa = optimized::available_isas().back();
  return isa;
}

std::uint32_t* words(void* at) { return static_cast<std::uint32_t*>(at); }
const std::uint32_t* words(const void* at) { return static_cast<const std::uint32_t*>(at); }

}  // namespace

void fill(void* to, std::size_t bytes, Stores stores) {
  if (widest() == optimized::Isa::avx512) return N_AVX3::fill(words(to), bytes / 4, stores);
  if (widest() == optimized::Isa::avx2) return N_AVX2::fill(words(to), bytes / 4, stores);
  std::memset(to, 1, bytes);
}

void change(void* at, std::size_t bytes, Stores stores) {
  if (widest() == optimized::Isa::avx512) return N_AVX3::change(words(at), bytes / 4, stores);
  if (widest() == optimized::Isa::avx2) return N_AVX2::change(words(at), bytes / 4, stores);
  for (std::size_t i = 0; i < bytes / 4; ++i) words(at)[i] ^= 0x80000000u;
}

void copy(const void* from, void* to, std::size_t bytes, Stores stores) {
  if (widest() == optimized::Isa::avx512)
    return N_AVX3::copy(words(from), words(to), bytes / 4, stores);
  if (widest() == optimized::Isa::avx2)
    return N_AVX2::copy(words(from), words(to), bytes / 4, stores);
  std::memcpy(to, from, bytes);
}

void combine(const void* a, const void* b, void* to, std::size_t bytes, Stores stores) {
  if (widest() == optimized::Isa::avx512)
    return N_AVX3::combine(words(a), words(b), words(to), bytes / 4, stores);
  if (widest() == optimized::Isa::avx2)
    return N_AVX2::combine(words(a), words(b), words(to), bytes / 4, stores);
  for (std::size_t i = 0; i < bytes / 4; ++i) words(to)[i] = words(a)[i] ^ words(b)[i];
}

std::uint32_t read(const void* from, std::size_t bytes) {
  if (widest() == optimized::Isa::avx512) return N_AVX3::read(words(from), bytes / 4);
  if (widest() == optimized::Isa::avx2) return N_AVX2::read(words(from), bytes / 4);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes / 4; ++i) sum += words(from)[i];
  return sum;
}

double multiply_add(std::size_t times, float* keep) {
  if (widest() == optimized::Isa::avx512) return N_AVX3::multiply_add(times, keep);
  if (widest() == optimized::Isa::avx2) return N_AVX2::multiply_add(times, keep);
  for (std::size_t i = 0; i < times; ++i) *keep = *keep * 0.25f + 1.0f;
  return 2.0 * static_cast<double>(times);
}

}  // namespace posproof::bench
#endif
