#include "optimized/core/exact.hpp"

#include <bit>
#include <boost/math/constants/constants.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <boost/multiprecision/cpp_int.hpp>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace posproof::optimized::core {
namespace {

namespace mp = boost::multiprecision;
using Big =
    mp::number<mp::cpp_bin_float<256, mp::digit_base_2, void, std::int32_t, -100000, 100000>,
               mp::et_off>;

const Big& half_pi() {
  static const Big kHalfPi = boost::math::constants::half_pi<Big>();
  return kHalfPi;
}

/// Rounds towards zero and sets the last bit of what is inexact. For normal results.
double to_odd_double(const Big& value) {
  double nearest = value.convert_to<double>();
  const Big back(nearest);
  if (back == value) return nearest;
  if (mp::fabs(back) > mp::fabs(value)) nearest = std::nextafter(nearest, 0.0);
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(nearest) | 1u);
}

DoubleDouble split(const Big& value) {
  const double hi = value.convert_to<double>();
  return {hi, (value - Big(hi)).convert_to<double>()};
}

/// Both by their series, |x| ≤ 0.79.
void sin_cos(const Big& x, Big& sin, Big& cos) {
  const Big square = x * x;
  Big term = 1;
  sin = 0;
  cos = 0;
  for (int n = 0; n < 60; n += 2) {  // 0.79^60/60! < 2^-290
    cos += term;
    term /= n + 1;
    sin += term;
    term *= square;
    term /= -(n + 2);
  }
  sin *= x;
}

}  // namespace

struct Exact::Numbers {
  std::vector<Big> quarter_turns;

  void add(const Big& turns) {
    const double omega = (turns * half_pi()).convert_to<double>();
    if (!(omega >= 0x1p-200 && omega <= 0x1p10))
      throw std::domain_error("inv_freq: found " + std::to_string(omega) + " for pair " +
                                  std::to_string(quarter_turns.size()) +
                                  ", allowed is 2^-200 to 2^10");
    quarter_turns.push_back(turns);
  }
};

Exact::Exact(std::size_t pairs, double base, double denominator, double factor)
    : numbers_(std::make_unique<Numbers>()) {
  if (!(base > 0) || !std::isfinite(base))
    throw std::invalid_argument("base: found " + std::to_string(base) + ", allowed is a number > 0");
  if (!(factor > 0) || !std::isfinite(factor))
    throw std::invalid_argument("factor: found " + std::to_string(factor) +
                                ", allowed is a number > 0");
  const Big ratio = pairs > 1 ? Big(mp::exp(-mp::log(Big(base)) / Big(denominator))) : Big(1);
  Big turns = 1 / (half_pi() * Big(factor));
  numbers_->quarter_turns.reserve(pairs);
  for (std::size_t i = 0; i < pairs; ++i, turns *= ratio) numbers_->add(turns);
}

Exact::Exact(std::span<const double> inv_freq) : numbers_(std::make_unique<Numbers>()) {
  for (const double omega : inv_freq) numbers_->add(Big(omega) / half_pi());
}

Exact::Exact(const Exact& other) : numbers_(std::make_unique<Numbers>(*other.numbers_)) {}
Exact::Exact(Exact&&) noexcept = default;
Exact::~Exact() = default;

std::size_t Exact::pairs() const noexcept { return numbers_->quarter_turns.size(); }

DoubleDouble Exact::frequency(std::size_t pair) const noexcept {
  return split(numbers_->quarter_turns[pair] * half_pi());
}

DoubleDouble Exact::quarter_turns(std::size_t pair) const noexcept {
  return split(numbers_->quarter_turns[pair]);
}

double Exact::wave(double position, std::size_t pair, bool is_sin,
                   DoubleDouble amplitude) const noexcept {
  const Big factor = Big(amplitude.hi) + Big(amplitude.lo);
  if (position == 0) return is_sin ? 0.0 : to_odd_double(factor);
  const Big turns = Big(position) * numbers_->quarter_turns[pair];
  const Big whole = mp::floor(turns + Big(0.5));
  const auto quadrant = whole.convert_to<std::int64_t>() & 3;
  Big sin, cos;
  sin_cos((turns - whole) * half_pi(), sin, cos);
  const bool takes_sin = is_sin == (quadrant % 2 == 0);
  const bool is_negative = is_sin ? quadrant >= 2 : quadrant == 1 || quadrant == 2;
  Big value = (takes_sin ? sin : cos) * factor;
  if (is_negative) value = -value;
#ifndef NDEBUG
  // The relative error of anything here, with room to spare: docs/error-model.md, "The exact path".
  constexpr int kErrorExponent = -220;
  const Big error = mp::ldexp(mp::fabs(value) + mp::fabs(turns * factor), kErrorExponent);
  const double below = to_odd_double(value - error), above = to_odd_double(value + error);
  assert(below == above || static_cast<float>(below) == static_cast<float>(above));
#endif
  return to_odd_double(value);
}

double power(double base, double exponent) noexcept {
  return to_odd_double(exponent == 0 ? Big(1) : Big(mp::exp(mp::log(Big(base)) * Big(exponent))));
}

std::int64_t least_with_power(std::int64_t base, std::int64_t power, std::int64_t limit,
                              std::int64_t part) {
  const Big step = mp::log(Big(limit) / Big(base)) * Big(part);
  const auto reaches = [&](std::int64_t n) {
    const Big excess = mp::log(Big(n) / Big(base)) * Big(power) - step;
    if (mp::fabs(excess) > mp::ldexp(Big(1), -150)) return excess > 0;
    using Integer = mp::cpp_int;
    const auto raised = [](std::int64_t number, std::int64_t exponent) -> Integer {
      return mp::pow(Integer(number), static_cast<unsigned>(exponent));
    };
    return raised(n, power) * raised(base, part) >= raised(limit, part) * raised(base, power);
  };
  auto n = mp::floor(Big(base) * mp::exp(step / Big(power))).convert_to<std::int64_t>();
  while (n > base && reaches(n - 1)) --n;
  while (!reaches(n)) ++n;
  return n;
}

double slope_times(double bias_max, double multiple, double denominator, double factor) noexcept {
  if (factor == 0) return 0;
  const Big exponent = -Big(bias_max) * Big(multiple) / Big(denominator);
  const Big whole = mp::floor(exponent);
  const Big part = exponent - whole;
  Big value = part == 0 ? Big(1) : Big(mp::exp2(part));
  value = mp::ldexp(value, whole.convert_to<int>()) * Big(factor);
  return to_odd_double(value);
}

}  // namespace posproof::optimized::core
