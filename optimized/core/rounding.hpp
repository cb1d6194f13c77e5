#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "optimized/core/types.hpp"

/// Conversions of one number with the bits of the vector instructions: to nearest, ties to even,
/// subnormals kept, a NaN quiet with the upper part of its payload.
namespace posproof::optimized::core {

inline float widen(float value) { return value; }
inline float widen(BF16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
inline float widen(F16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 31u, fraction = value.bits & 1023u;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13) |
                                (fraction != 0 ? 0x400000u : 0u));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

template <class T>
T narrow(float value);

template <>
inline float narrow<float>(float value) {
  return value;
}
template <>
inline BF16 narrow<BF16>(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
template <>
inline F16 narrow<F16>(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto with_sign = [sign](std::uint32_t half) {
    return F16{static_cast<std::uint16_t>(sign | half)};
  };
  if (magnitude > 0x7f800000u) return with_sign(0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);  // 65520, halfway to 2^16
  if (magnitude < 0x38800000u) {                            // 2^-14: counts of 2^-24
    const float count = std::bit_cast<float>(magnitude) * 0x1p24f;
    return with_sign(static_cast<std::uint32_t>(std::nearbyint(count)));
  }
  return with_sign((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13);
}

/// A number that is inexact gets an odd last bit, so that a second rounding to a type with two bits
/// less is the only one that counts (Boldo and Melquiond 2008).
inline float to_odd_float(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

/// One rounding of a double, straight to T.
template <class T>
T round_to(double value) {
  return narrow<T>(to_odd_float(value));
}
template <>
inline float round_to<float>(double value) {
  return static_cast<float>(value);
}

inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
inline std::uint32_t bits_of(F16 value) { return value.bits; }
inline std::uint32_t bits_of(BF16 value) { return value.bits; }

}  // namespace posproof::optimized::core
