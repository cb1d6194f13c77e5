#include "reference/core/dtype.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace posproof {
namespace {

struct Named {
  Dtype dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<Named, 6> kDtypes{{{Dtype::f64, "f64", 8},
                                        {Dtype::f32, "f32", 4},
                                        {Dtype::f16, "f16", 2},
                                        {Dtype::bf16, "bf16", 2},
                                        {Dtype::i64, "int64", 8},
                                        {Dtype::i32, "int32", 4}}};

const Named& named(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view name(Dtype dtype) { return named(dtype).name; }

std::size_t byte_size(Dtype dtype) { return named(dtype).bytes; }

Dtype dtype_from(std::string_view text) {
  for (const Named& known : kDtypes)
    if (known.name == text) return known.dtype;
  throw std::invalid_argument("dtype: '" + std::string(text) +
                              "' is not one of f64, f32, f16, bf16, int64, int32");
}

FloatFormat format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return {53, -1073, 1024};
    case Dtype::f32:
      return {24, -148, 128};
    case Dtype::f16:
      return {11, -23, 16};
    case Dtype::bf16:
      return {8, -132, 128};
    default:
      throw std::invalid_argument(std::string(name(dtype)) + " is not a floating point type");
  }
}

double FloatFormat::unit_roundoff() const { return std::ldexp(1.0, -precision); }

double FloatFormat::smallest() const { return std::ldexp(1.0, min_exponent - 1); }

double round_to(double value, const FloatFormat& format) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent;
  std::frexp(value, &exponent);
  const int bits = std::min(format.precision, exponent - format.min_exponent + 1);
  if (bits < 0) return std::copysign(0.0, value);
  // nearbyint rounds the scaled integer to even; both scalings are exact.
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(value, bits - exponent)), exponent - bits);
  std::frexp(rounded, &exponent);
  return exponent > format.max_exponent
             ? std::copysign(std::numeric_limits<double>::infinity(), value)
             : rounded;
}

double to_double(bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

double to_double(f16 value) {
  const int sign = value.bits >> 15, exponent = (value.bits >> 10) & 31;
  const int fraction = value.bits & 1023;
  double magnitude;
  if (exponent == 31)
    magnitude = fraction ? std::numeric_limits<double>::quiet_NaN()
                         : std::numeric_limits<double>::infinity();
  else
    magnitude = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  return sign ? -magnitude : magnitude;
}

bf16 to_bf16(double value) {
  if (std::isnan(value)) return {static_cast<std::uint16_t>(std::signbit(value) ? 0xffc0 : 0x7fc0)};
  const auto narrow = static_cast<float>(round_to(value, format_of(Dtype::bf16)));
  return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(narrow) >> 16)};
}

f16 to_f16(double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return {static_cast<std::uint16_t>(sign | 0x7e00)};
  const double rounded = std::fabs(round_to(value, format_of(Dtype::f16)));
  if (std::isinf(rounded)) return {static_cast<std::uint16_t>(sign | 0x7c00)};
  int exponent;
  std::frexp(rounded, &exponent);
  // Below 2^-14 the fraction counts steps of 2^-24.
  const int bits =
      rounded < std::ldexp(1.0, -14)
          ? static_cast<int>(std::ldexp(rounded, 24))
          : ((exponent + 14) << 10) + static_cast<int>(std::ldexp(rounded, 11 - exponent)) - 1024;
  return {static_cast<std::uint16_t>(sign | bits)};
}

}  // namespace posproof
