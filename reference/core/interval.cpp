#include <algorithm>
#include <limits>

#include "reference/core/real.hpp"

namespace posproof {
namespace {

/// A raw MPFR number with the precision of its destination.
class Mpfr {
 public:
  explicit Mpfr(mpfr_prec_t precision) { mpfr_init2(value_, precision); }
  ~Mpfr() { mpfr_clear(value_); }
  Mpfr(const Mpfr&) = delete;
  Mpfr& operator=(const Mpfr&) = delete;
  operator mpfr_ptr() { return value_; }

 private:
  mpfr_t value_;
};

template <unsigned D>
Interval<D> enclose(mpfr_ptr centre, mpfr_ptr radius, bool centre_is_exact) {
  const mpfr_prec_t precision = mpfr_get_prec(centre);
  Mpfr error(precision), low(precision), high(precision);
  mpfr_set(error, radius, MPFR_RNDU);
  if (!centre_is_exact && mpfr_regular_p(centre)) {
    mpfr_set_ui_2exp(low, 1, mpfr_get_exp(centre) - precision, MPFR_RNDU);
    mpfr_add(error, error, low, MPFR_RNDU);
  }
  mpfr_sub(low, centre, error, MPFR_RNDD);
  mpfr_add(high, centre, error, MPFR_RNDU);
  Interval<D> enclosure;
  mpfi_interv_fr(enclosure.backend().data(), low, high);
  return enclosure;
}

/// MPFR counts exponents as FloatFormat does. Exponent arithmetic, so that no thread state
/// (emin, emax) is touched.
double round_endpoint(mpfr_srcptr x, const FloatFormat& format) {
  if (mpfr_nan_p(x)) return std::numeric_limits<double>::quiet_NaN();
  const double sign = mpfr_signbit(x) ? -1.0 : 1.0;
  if (mpfr_inf_p(x)) return sign * std::numeric_limits<double>::infinity();
  if (mpfr_zero_p(x)) return sign * 0.0;
  const long bits = std::min<long>(format.precision, mpfr_get_exp(x) - format.min_exponent + 1);
  if (bits < 0) return sign * 0.0;
  if (bits == 0) {  // between η/2 and η: above the tie η/2 to η, the tie itself to 0
    Mpfr tie(2);
    mpfr_set_ui_2exp(tie, 1, format.min_exponent - 2, MPFR_RNDN);
    return mpfr_cmpabs(x, tie) > 0 ? sign * format.smallest() : sign * 0.0;
  }
  Mpfr rounded(bits);
  mpfr_set(rounded, x, MPFR_RNDN);
  if (mpfr_get_exp(rounded) > format.max_exponent)
    return sign * std::numeric_limits<double>::infinity();
  return mpfr_get_d(rounded, MPFR_RNDN);
}

/// Of two neighbours in `format`, the one whose last significand bit is 0.
double even_of(double low, double high, const FloatFormat& format) {
  if (std::isinf(low) || std::isinf(high)) return std::isinf(low) ? low : high;
  int exponent;
  std::frexp(std::max(std::fabs(low), std::fabs(high)), &exponent);
  const int last_bit = std::max(exponent - format.precision, format.min_exponent - 1);
  return std::fmod(std::ldexp(low, -last_bit), 2.0) == 0 ? low : high;
}

}  // namespace

template <unsigned D>
SinCos<Interval<D>> sin_cos(const Interval<D>& angle) {
  const auto* interval = angle.backend().data();
  const mpfr_prec_t precision = mpfi_get_prec(interval);
  Mpfr middle(precision), radius(precision), side(precision), sine(precision), cosine(precision);
  mpfi_mid(middle, interval);
  mpfr_sub(radius, &interval->right, middle, MPFR_RNDU);
  mpfr_sub(side, middle, &interval->left, MPFR_RNDU);
  mpfr_max(radius, radius, side, MPFR_RNDU);
  const int inexact = mpfr_sin_cos(sine, cosine, middle, MPFR_RNDN);
  return {enclose<D>(sine, radius, (inexact & 3) == 0),
          enclose<D>(cosine, radius, (inexact >> 2) == 0)};
}

template <unsigned D>
double estimate(const Interval<D>& x) {
  return mpfi_get_d(x.backend().data());
}

template <unsigned D>
bool round_certainly(const Interval<D>& x, const FloatFormat& format, bool tie_to_even,
                     double& rounded) {
  const double low = round_endpoint(&x.backend().data()->left, format);
  const double high = round_endpoint(&x.backend().data()->right, format);
  rounded = low;
  if (std::isnan(low) || std::isnan(high)) {
    rounded = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (low == high) return true;
  if (tie_to_even) rounded = even_of(low, high, format);
  return tie_to_even;
}

#define POSPROOF_INSTANTIATE(D)                                \
  template SinCos<Interval<D>> sin_cos<D>(const Interval<D>&); \
  template double estimate<D>(const Interval<D>&);             \
  template bool round_certainly<D>(const Interval<D>&, const FloatFormat&, bool, double&);
POSPROOF_INSTANTIATE(60)
POSPROOF_INSTANTIATE(200)
POSPROOF_INSTANTIATE(1000)
#undef POSPROOF_INSTANTIATE

}  // namespace posproof
