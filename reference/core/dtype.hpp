#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace posproof {

enum class Dtype { f64, f32, f16, bf16, i64, i32 };

inline constexpr std::array<Dtype, 4> kFloatDtypes{Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16};

/// The name used in files and protocols: "f64", …, "int64", "int32".
std::string_view name(Dtype dtype);
/// Throws std::invalid_argument that names the text and the six that are allowed.
Dtype dtype_from(std::string_view name);
std::size_t byte_size(Dtype dtype);

constexpr bool is_float(Dtype dtype) { return dtype != Dtype::i64 && dtype != Dtype::i32; }
constexpr bool is_16_bit(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16; }

/// IEEE 754 binary16 as storage: neither GCC 12 nor clang 14 has the type on every target.
struct f16 {
  std::uint16_t bits = 0;
  bool operator==(const f16&) const = default;
};

/// The upper half of a binary32.
struct bf16 {
  std::uint16_t bits = 0;
  bool operator==(const bf16&) const = default;
};

/// A binary floating point format: values m·2^e with `precision` bits of m in [1/2, 1).
struct FloatFormat {
  int precision;
  int min_exponent;  ///< exponent of the smallest subnormal
  int max_exponent;  ///< exponent of the largest finite value

  /// u, the largest relative error of one rounding to nearest.
  double unit_roundoff() const;
  /// η, the smallest positive (subnormal) value.
  double smallest() const;
};

/// Precondition: is_float(dtype).
FloatFormat format_of(Dtype dtype);

/// Rounds to nearest, ties to even, into `format`; overflow gives infinity. Exact for NaN, ±0, ±∞.
/// One rounding of a double: never a substitute for the rounding of a true value (rounding.hpp).
double round_to(double value, const FloatFormat& format);

double to_double(f16 value);
double to_double(bf16 value);
f16 to_f16(double value);
bf16 to_bf16(double value);

}  // namespace posproof
