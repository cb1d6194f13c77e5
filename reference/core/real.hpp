#pragma once

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <boost/multiprecision/eigen.hpp>
#include <boost/multiprecision/mpfi.hpp>
#include <cmath>
#include <cstdint>

#include "reference/core/dtype.hpp"

namespace posproof {

/// A certified interval of D decimal digits: the true value lies inside. Static precision only:
/// Boost 1.74's variable-precision types keep their default in a process-wide atomic.
template <unsigned D>
using Interval = boost::multiprecision::number<boost::multiprecision::mpfi_float_backend<D>,
                                               boost::multiprecision::et_off>;

/// The precisions tried in turn until every rounding is certain: 201, 666 and 3323 bits.
using Real60 = Interval<60>;
using Real200 = Interval<200>;
using Real1000 = Interval<1000>;

/// The second arithmetic, which shares no code with the first: 320 bits, round to nearest.
using Second = boost::multiprecision::number<
    boost::multiprecision::cpp_bin_float<320, boost::multiprecision::digit_base_2, void,
                                         std::int32_t, -100000000, 100000000>,
    boost::multiprecision::et_off>;

template <class R>
struct SinCos {
  R sin, cos;
};

/// Exact at 0. The interval form encloses: sin and cos of the midpoint, widened by the radius
/// (|sin'| ≤ 1, |cos'| ≤ 1) and the rounding of MPFR.
template <unsigned D>
SinCos<Interval<D>> sin_cos(const Interval<D>& angle);
/// Reduces by a multiple of π/2 at 480 bits (π by Machin's formula), then Taylor: Boost's own sine
/// loses 2^65 ulp near multiples of π/2.
SinCos<Second> sin_cos(const Second& angle);
inline SinCos<double> sin_cos(double angle) { return {std::sin(angle), std::cos(angle)}; }

template <class R>
R exponential(const R& x) {
  using std::exp;
  return exp(x);
}

/// base^exponent for base > 0.
template <class R>
R power(const R& base, const R& exponent) {
  using std::exp;
  using std::log;
  return exp(exponent * log(base));
}

/// 2^exponent, exact when the exponent is whole.
template <class R>
R power_of_two(const R& numerator, const R& denominator, double quotient) {
  using std::ldexp;
  return quotient == std::floor(quotient) ? ldexp(R(1), static_cast<int>(quotient))
                                          : power(R(2), R(numerator / denominator));
}

/// A double near x, for shifts and magnitudes that need no certainty.
template <unsigned D>
double estimate(const Interval<D>& x);
inline double estimate(const Second& x) { return x.convert_to<double>(); }
inline double estimate(double x) { return x; }

/// x rounded to nearest even into `format` in one step, or false when the interval leaves two
/// answers. NaN stays NaN. `tie_to_even`: an interval that straddles a tie is that tie.
template <unsigned D>
bool round_certainly(const Interval<D>& x, const FloatFormat& format, bool tie_to_even,
                     double& rounded);
/// Always decides: what lies within 2^-256 (relative) of a tie is that tie. Integer arithmetic of
/// its own.
bool round_certainly(const Second& x, const FloatFormat& format, bool tie_to_even, double& rounded);

}  // namespace posproof
