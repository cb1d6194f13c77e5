#pragma once

#include <bit>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <limits>

#include "reference/core/dtype.hpp"

namespace posproof {

using boost::multiprecision::cpp_int;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// m·2^e with m ≥ 0, exactly.
struct Dyadic {
  cpp_int m;
  int e = 0;
};

inline Dyadic operator+(const Dyadic& a, const Dyadic& b) {
  const int e = std::min(a.e, b.e);
  return {(a.m << (a.e - e)) + (b.m << (b.e - e)), e};
}

inline int compare(const Dyadic& a, const Dyadic& b) {
  const int e = std::min(a.e, b.e);
  return cpp_int(a.m << (a.e - e)).compare(b.m << (b.e - e));
}

/// The oracle: a type is the list of its magnitudes in the order of their bit patterns. The pattern
/// of infinity stands for the first power of two beyond the largest finite value.
struct Layout {
  Dtype dtype;
  int fraction_bits, exponent_bits;

  std::uint64_t infinity() const {
    return ((std::uint64_t{1} << exponent_bits) - 1) << fraction_bits;
  }
  Dyadic magnitude(std::uint64_t pattern) const {
    const auto field = static_cast<int>(pattern >> fraction_bits);
    const std::uint64_t hidden = std::uint64_t{1} << fraction_bits;
    const std::uint64_t fraction = pattern & (hidden - 1);
    const int lowest = 2 - (1 << (exponent_bits - 1)) - fraction_bits;
    return field == 0 ? Dyadic{fraction, lowest} : Dyadic{fraction + hidden, lowest + field - 1};
  }
  double value(std::uint64_t pattern) const {
    const Dyadic exact = magnitude(pattern);
    return pattern == infinity() ? kInfinity : std::ldexp(exact.m.convert_to<double>(), exact.e);
  }
  Dyadic midpoint(std::uint64_t pattern) const {
    Dyadic middle = magnitude(pattern) + magnitude(pattern + 1);
    --middle.e;
    return middle;
  }
  /// The nearer neighbour of x, the even pattern of a tie.
  std::uint64_t nearest(const Dyadic& x) const {
    std::uint64_t low = 0, high = infinity();
    while (low < high) {
      const std::uint64_t middle = low + (high - low + 1) / 2;
      compare(magnitude(middle), x) <= 0 ? low = middle : high = middle - 1;
    }
    if (low == infinity()) return low;
    const int side = compare(x, midpoint(low));
    return side < 0 || (side == 0 && low % 2 == 0) ? low : low + 1;
  }
};

inline constexpr Layout kF64{Dtype::f64, 52, 11}, kF32{Dtype::f32, 23, 8}, kF16{Dtype::f16, 10, 5},
    kBf16{Dtype::bf16, 7, 8};

/// The same bits: −0 is not 0.
inline bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace posproof
