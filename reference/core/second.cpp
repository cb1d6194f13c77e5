#include <limits>

#include "reference/core/real.hpp"

namespace posproof {
namespace {

namespace mp = boost::multiprecision;

template <unsigned Bits>
using Binary =
    mp::number<mp::cpp_bin_float<Bits, mp::digit_base_2, void, std::int32_t, -100000000, 100000000>,
               mp::et_off>;
using Wide = Binary<480>;   // reduction: 2^31 and a near multiple of π/2 cost under 120 bits
using Guard = Binary<352>;  // series

/// arctan(1/n) by its Taylor series.
Wide arctan_of_reciprocal(int n) {
  const Wide square(n * n);
  Wide power = Wide(1) / n, sum = power;
  for (int k = 1; power > std::numeric_limits<Wide>::epsilon() / 16; ++k) {
    power /= square;
    sum += (k % 2 ? -power : power) / (2 * k + 1);
  }
  return sum;
}

/// π/2 = 8·arctan(1/5) − 2·arctan(1/239)  (Machin 1706).
const Wide& half_pi() {
  static const Wide value = 8 * arctan_of_reciprocal(5) - 2 * arctan_of_reciprocal(239);
  return value;
}

/// Σ (−1)^k x^(2k+first)/(2k+first)!
Guard alternating_series(const Guard& x, int first) {
  const Guard square = x * x;
  Guard term = first ? x : Guard(1), sum = term;
  for (int k = first + 1;
       term != 0 && fabs(term) > std::numeric_limits<Guard>::epsilon() * fabs(sum) / 4; k += 2) {
    term *= -square / (k * (k + 1));
    sum += term;
  }
  return sum;
}

}  // namespace

SinCos<Second> sin_cos(const Second& angle) {
  if (mp::isnan(angle)) return {angle, angle};
  const Wide wide(angle);
  const Wide turns = floor(wide / half_pi() + Wide(0.5));
  const Guard rest(Wide(wide - turns * half_pi()));
  const Second sine(alternating_series(rest, 1)), cosine(alternating_series(rest, 0));
  const auto quadrant = ((turns.convert_to<mp::cpp_int>() % 4 + 4) % 4).convert_to<int>();
  switch (quadrant) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, Second(-sine)};
    case 2:
      return {Second(-sine), Second(-cosine)};
    default:
      return {Second(-cosine), sine};
  }
}

bool round_certainly(const Second& x, const FloatFormat& format, bool, double& rounded) {
  const double sign = mp::signbit(x) ? -1.0 : 1.0;
  if (mp::isnan(x)) return rounded = std::numeric_limits<double>::quiet_NaN(), true;
  if (mp::isinf(x)) return rounded = sign * std::numeric_limits<double>::infinity(), true;
  if (x == 0) return rounded = sign * 0.0, true;

  // |x| = m·2^(e−256) with 2^255 ≤ m < 2^256 after the snap.
  constexpr int kKept = 256;
  mp::cpp_int m(x.backend().bits());
  long e = x.backend().exponent() + 1;
  const int dropped = static_cast<int>(msb(m)) + 1 - kKept;
  m = (m + (mp::cpp_int(1) << (dropped - 1))) >> dropped;
  if (msb(m) == kKept) m >>= 1, ++e;

  const long bits = std::min<long>(format.precision, e - format.min_exponent + 1);
  if (bits < 0) return rounded = sign * 0.0, true;
  const auto shift = static_cast<unsigned>(kKept - bits);
  const mp::cpp_int half = mp::cpp_int(1) << (shift - 1);
  mp::cpp_int quotient = m >> shift;
  const mp::cpp_int rest = m - (quotient << shift);
  if (rest > half || (rest == half && (quotient & 1) != 0)) ++quotient;
  const double magnitude = std::ldexp(quotient.convert_to<double>(), static_cast<int>(e - bits));
  int exponent;
  std::frexp(magnitude, &exponent);
  rounded = exponent > format.max_exponent ? sign * std::numeric_limits<double>::infinity()
                                           : sign * magnitude;
  return true;
}

}  // namespace posproof
