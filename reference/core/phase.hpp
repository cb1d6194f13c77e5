#pragma once

#include <stdexcept>

#include "reference/core/operation.hpp"

namespace posproof {

/// A rounding inside a recipe that this precision leaves open: the next one is tried.
struct Undecided : std::exception {};

/// x rounded to nearest even into f32, as a step of a recipe.
template <class R>
R rounded_f32(const R& x) {
  double rounded;
  if constexpr (std::is_same_v<R, double>)
    rounded = static_cast<float>(x);
  else if (!round_certainly(x, format_of(Dtype::f32), false, rounded))
    throw Undecided{};
  return R(rounded);
}

/// c of |δθ| ≤ c·u·|p·ω|, for the frequency e^(−x) of pair i: power (or exp of log), reciprocal,
/// product and position conversion take 4; an exponent rounded r times costs x each time, since the
/// exponential amplifies it; a running product costs 3i; `parameters` counts further rounded
/// parameters such as a factor. docs/error-model.md, "Phase".
double phase_coefficient(double x, double pair, int parameters);

/// Collects the limits of one output, element after element.
class Limits {
 public:
  explicit Limits(const Rounding& rounding) : rounding_(rounding) {}

  /// amplitude·sin or cos of an angle known to `phase_error`; `value` is the true result.
  void table_element(double amplitude, double value, double phase_error);
  /// One lane of a rotated pair: amplitude·(x1·cos ∓ x2·sin). It cancels, so the limit follows
  /// |x1| + |x2|, not the result.
  void rotated_element(double amplitude, double x1, double x2, double value, double phase_error);
  /// A result whose error before the last rounding is `error`.
  void element(double error, double value);
  /// A result that is known no better than `trivial`: no evidence for a grade.
  void no_evidence(double trivial);
  /// A lane that is copied.
  void copied() { push(0, true); }

  Bound take() { return std::move(bound_); }

 private:
  void push(double limit, bool evidence);

  Rounding rounding_;
  Bound bound_;
};

}  // namespace posproof
