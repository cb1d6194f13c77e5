#include "properties/core/range.hpp"

#include <rapidcheck.h>

namespace posproof::properties {

Range range_around(double value, double limit) {
  Range error;
  mpfi_interv_d(error.backend().data(), -limit, limit);
  return Range(value) + error;
}

bool meet(const Range& a, const Range& b) {
  const auto* x = a.backend().data();
  const auto* y = b.backend().data();
  return mpfr_lessequal_p(&x->left, &y->right) && mpfr_lessequal_p(&y->left, &x->right);
}

bool certainly_less(const Range& a, const Range& b) {
  return mpfr_less_p(&a.backend().data()->right, &b.backend().data()->left);
}

double radius(const Range& range) {
  mpfr_t diameter;
  mpfr_init2(diameter, 53);
  mpfi_diam_abs(diameter, range.backend().data());
  const double half = mpfr_get_d(diameter, MPFR_RNDU) / 2;
  mpfr_clear(diameter);
  return half;
}

std::string shown(const Range& range) {
  char text[64];
  std::snprintf(text, sizeof text, "%.17g ± %.2g", estimate(range), radius(range));
  return text;
}

void require_meet(const Range& a, const Range& b, const std::string& what) {
  if (!meet(a, b))
    RC_FAIL(what + ": " + shown(a) + " and " + shown(b) + " cannot be the same number");
}

}  // namespace posproof::properties
