#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace posproof::optimized::core {

/// The unevaluated sum hi + lo.
struct DoubleDouble {
  double hi, lo;
};

/// The slow path: frequencies and waves to more than 200 bits, for what a faster path cannot decide.
/// Allocates in its constructors only.
class Exact {
 public:
  /// ω_i = base^(−i/denominator)/factor for i < pairs.
  /// Throws std::invalid_argument unless base and factor are > 0 and finite, std::domain_error unless
  /// every ω_i lies in [2^-200, 2^10].
  Exact(std::size_t pairs, double base, double denominator, double factor);
  /// ω_i as given.
  explicit Exact(std::span<const double> inv_freq);

  Exact(const Exact&);
  Exact(Exact&&) noexcept;
  ~Exact();

  std::size_t pairs() const noexcept;
  /// ω_i.
  DoubleDouble frequency(std::size_t pair) const noexcept;
  /// ω_i·2/π.
  DoubleDouble quarter_turns(std::size_t pair) const noexcept;

  /// amplitude·sin(position·ω_i), or the cosine, rounded to odd. Any rounding of it to 50 bits or
  /// fewer is that of the true value: docs/error-model.md, "The exact path".
  double wave(double position, std::size_t pair, bool is_sin, DoubleDouble amplitude) const noexcept;

 private:
  struct Numbers;
  std::unique_ptr<Numbers> numbers_;
};

/// base^exponent for base > 0, rounded to odd.
double power(double base, double exponent) noexcept;

/// The least n with (n/base)^power ≥ (limit/base)^part, decided by integer powers where logarithms
/// cannot; 0 < base < limit, 0 < part < power.
std::int64_t least_with_power(std::int64_t base, std::int64_t power, std::int64_t limit,
                              std::int64_t part);

/// 2^(−bias_max·multiple/denominator)·factor rounded to odd. An exponent that is whole makes it exact.
double slope_times(double bias_max, double multiple, double denominator, double factor) noexcept;

}  // namespace posproof::optimized::core
