#include "reference/core/phase.hpp"

#include <algorithm>
#include <cmath>

namespace posproof {

double phase_coefficient(double x, double pair, int parameters) {
  return 4 + std::max(3 * std::fabs(x), std::fabs(x) + 3 * pair) + parameters;
}

void Limits::push(double limit, bool evidence) {
  bound_.limit.push_back(limit);
  bound_.evidence.push_back(evidence);
}

void Limits::no_evidence(double trivial) {
  push(trivial + 2 * rounding_.output.smallest(), false);  // what is smaller still rounds to 0
}

void Limits::element(double error, double value) {
  // The last rounding, and the rounding of the expected f64 itself. Magnitudes come from double
  // arithmetic, which is good to 2^-20 even at position 2^31.
  const double last =
      (rounding_.output.unit_roundoff() + std::ldexp(1.0, -53)) * (std::fabs(value) + error);
  push((error + last) * (1 + std::ldexp(1.0, -20)) + 2 * rounding_.output.smallest(), true);
}

void Limits::table_element(double amplitude, double value, double phase_error) {
  const double a = std::fabs(amplitude);
  if (phase_error > 0.25) return no_evidence(2.1 * a);
  // sin and cos at 4 ulp ≤ 8u of a result that is itself moved by the phase.
  const double magnitude = std::min(a, std::fabs(value) + a * phase_error);
  const double trig = 8 * rounding_.trig * magnitude;
  const double scaled = amplitude == 1 ? 0 : 2 * std::max(rounding_.trig, rounding_.compute);
  element(a * phase_error + trig + scaled * magnitude, value);
}

void Limits::rotated_element(double amplitude, double x1, double x2, double value,
                             double phase_error) {
  const double a = std::fabs(amplitude) * (std::fabs(x1) + std::fabs(x2));
  if (phase_error > 0.25) return no_evidence(2.1 * a);
  const double scaled = amplitude == 1 ? 0 : 2 * std::max(rounding_.trig, rounding_.compute);
  element(a * (phase_error + 8 * rounding_.trig + 3 * rounding_.compute + 3 * rounding_.stored +
               scaled),
          value);
}

}  // namespace posproof
