#include <gtest/gtest.h>

#include <random>

#include "reference/core/real.hpp"
#include "reference/tests/float_layout.hpp"

namespace posproof {
namespace {

/// x·(1 + direction·2^-180): 192 bits for a midpoint of a 16-bit type, which Real60 still holds.
Dyadic nudged(const Dyadic& x, int direction) {
  return {(x.m << 180) + direction * x.m, x.e - 180};
}

template <class R>
R real(const Dyadic& x, int sign) {
  R sum(0);
  for (unsigned bit = 0; bit < 320; bit += 32)
    sum += ldexp(R(cpp_int((x.m >> bit) & 0xffffffffu).convert_to<double>()),
                 x.e + static_cast<int>(bit));
  return sign < 0 ? R(-sum) : sum;
}

template <unsigned D>
Interval<D> hull(const Interval<D>& a, const Interval<D>& b) {
  Interval<D> whole;
  mpfi_union(whole.backend().data(), a.backend().data(), b.backend().data());
  return whole;
}

template <class R>
::testing::AssertionResult rounds(const R& x, const Layout& layout, int sign,
                                  std::uint64_t pattern) {
  double rounded = -1;
  const double expected = sign * layout.value(pattern);
  if (round_certainly(x, format_of(layout.dtype), false, rounded) && same(rounded, expected))
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << name(layout.dtype) << " next to pattern " << pattern << ": got " << std::hexfloat
         << rounded << ", expected " << expected;
}

/// The midpoint above `pattern` goes to its even side, and to its own side when nudged.
template <class R>
::testing::AssertionResult decides_midpoint(const Layout& layout, std::uint64_t pattern) {
  const Dyadic middle = layout.midpoint(pattern);
  for (int sign : {1, -1})
    for (int nudge : {-1, 0, 1}) {
      const std::uint64_t expected =
          nudge < 0 || (nudge == 0 && pattern % 2 == 0) ? pattern : pattern + 1;
      const Dyadic x = nudge == 0 ? middle : nudged(middle, nudge);
      const auto result = rounds(real<R>(x, sign), layout, sign, expected);
      if (!result) return result;
    }
  return ::testing::AssertionSuccess();
}

TEST(rounding, every_midpoint_of_the_16_bit_types_is_decided_by_both_arithmetics) {
  for (const Layout& layout : {kF16, kBf16})
    for (std::uint64_t pattern = 0; pattern < layout.infinity(); ++pattern) {
      ASSERT_TRUE(decides_midpoint<Real60>(layout, pattern));
      ASSERT_TRUE(decides_midpoint<Second>(layout, pattern));
    }
}

TEST(rounding, midpoints_of_f32_and_f64_are_decided_at_both_ends_and_at_random) {
  std::mt19937_64 random(1);
  for (const Layout& layout : {kF32, kF64}) {
    const std::uint64_t normal = std::uint64_t{1} << layout.fraction_bits;
    std::vector<std::uint64_t> patterns{
        0, 1, 2, 3, normal - 2, normal - 1, normal, layout.infinity() - 2, layout.infinity() - 1};
    for (int i = 0; i < 4000; ++i) patterns.push_back(random() % layout.infinity());
    for (int i = 0; i < 1000; ++i) patterns.push_back(random() % normal);
    for (std::uint64_t field = 1; field < (1u << layout.exponent_bits) - 1u; ++field)
      patterns.push_back((field << layout.fraction_bits) - 1);
    for (std::uint64_t pattern : patterns) {
      ASSERT_TRUE(decides_midpoint<Real60>(layout, pattern));
      ASSERT_TRUE(decides_midpoint<Second>(layout, pattern));
    }
  }
}

/// 200 random bits, or p random bits with a tail that is (almost) a tie; exponents beyond both
/// ends.
Dyadic any_number(std::mt19937_64& random, const FloatFormat& format) {
  const int low = format.min_exponent - 4, high = format.max_exponent + 3;
  const int exponent = low + static_cast<int>(random() % static_cast<unsigned>(high - low));
  cpp_int m = (cpp_int(random() | (std::uint64_t{1} << 63)) << 136) + (cpp_int(random()) << 72) +
              (cpp_int(random()) << 8) + random() % 256;
  const auto kind = random() % 4;
  if (kind > 0) {
    const int kept = std::max(1, std::min(format.precision, exponent - format.min_exponent + 1));
    m = ((m >> (200 - kept)) << (200 - kept)) + (cpp_int(1) << (199 - kept));
    if (kind == 2) ++m;
    if (kind == 3) --m;
  }
  return {m, exponent - 200};
}

TEST(rounding, random_numbers_go_where_exact_integer_comparison_says) {
  std::mt19937_64 random(2);
  for (const Layout& layout : {kF64, kF32, kF16, kBf16})
    for (int i = 0; i < 3000; ++i) {
      const Dyadic x = any_number(random, format_of(layout.dtype));
      const std::uint64_t expected = layout.nearest(x);
      const int sign = i % 2 ? 1 : -1;
      ASSERT_TRUE(rounds(real<Real60>(x, sign), layout, sign, expected));
      ASSERT_TRUE(rounds(real<Real200>(x, sign), layout, sign, expected));
      ASSERT_TRUE(rounds(real<Real1000>(x, sign), layout, sign, expected));
      ASSERT_TRUE(rounds(real<Second>(x, sign), layout, sign, expected));
    }
}

TEST(rounding, far_below_the_smallest_and_far_above_the_largest_value) {
  for (const Layout& layout : {kF64, kF32, kF16, kBf16})
    for (int sign : {1, -1}) {
      const Dyadic tiny{1, -2000}, huge{1, 2000};
      EXPECT_TRUE(rounds(real<Real60>(tiny, sign), layout, sign, 0));
      EXPECT_TRUE(rounds(real<Second>(tiny, sign), layout, sign, 0));
      EXPECT_TRUE(rounds(real<Real60>(huge, sign), layout, sign, layout.infinity()));
      EXPECT_TRUE(rounds(real<Second>(huge, sign), layout, sign, layout.infinity()));
    }
}

template <class R>
void expect_special_values_stay(const FloatFormat& format) {
  double rounded = -1;
  for (double value : {0.0, -0.0, kInfinity, -kInfinity}) {
    EXPECT_TRUE(round_certainly(R(value), format, false, rounded));
    EXPECT_TRUE(rounded == value) << rounded << " for " << value;
  }
  EXPECT_TRUE(round_certainly(R(kNan), format, false, rounded));
  EXPECT_TRUE(std::isnan(rounded));
}

TEST(rounding, zero_infinity_and_nan_stay_what_they_are) {
  for (Dtype dtype : kFloatDtypes) {
    expect_special_values_stay<Real60>(format_of(dtype));
    expect_special_values_stay<Second>(format_of(dtype));
  }
}

/// An interval around the midpoint above `pattern`, and one that begins or ends on it.
::testing::AssertionResult leaves_the_tie_open(const Layout& layout, std::uint64_t pattern,
                                               int sign) {
  const FloatFormat format = format_of(layout.dtype);
  const Dyadic middle = layout.midpoint(pattern);
  const auto below = real<Real60>(nudged(middle, -1), sign), at = real<Real60>(middle, sign),
             above = real<Real60>(nudged(middle, 1), sign);
  const bool is_even = pattern % 2 == 0;
  const double even = sign * layout.value(is_even ? pattern : pattern + 1);
  double rounded = -1;
  const auto wrong = [&](const char* what) {
    return ::testing::AssertionFailure() << name(layout.dtype) << " pattern " << pattern << " sign "
                                         << sign << ": " << what << ", rounded " << rounded;
  };
  if (round_certainly(hull(below, above), format, false, rounded))
    return wrong("decided a straddle");
  if (!round_certainly(hull(below, above), format, true, rounded) || !same(rounded, even))
    return wrong("a straddled tie is not even");
  if (round_certainly(hull(below, at), format, false, rounded) != is_even)
    return wrong("an interval that ends on the tie");
  if (round_certainly(hull(at, above), format, false, rounded) == is_even)
    return wrong("an interval that begins on the tie");
  return ::testing::AssertionSuccess();
}

TEST(rounding, an_interval_with_two_answers_is_undecided_and_even_when_it_is_a_tie) {
  std::mt19937_64 random(3);
  for (int sign : {1, -1}) {
    for (const Layout& layout : {kF16, kBf16})
      for (std::uint64_t pattern = 0; pattern < layout.infinity(); ++pattern)
        ASSERT_TRUE(leaves_the_tie_open(layout, pattern, sign));
    for (const Layout& layout : {kF32, kF64}) {
      for (std::uint64_t pattern : {std::uint64_t{0}, std::uint64_t{1}, layout.infinity() - 1})
        ASSERT_TRUE(leaves_the_tie_open(layout, pattern, sign));
      for (std::uint64_t field = 1; field < (1u << layout.exponent_bits) - 1u; ++field)
        ASSERT_TRUE(leaves_the_tie_open(layout, (field << layout.fraction_bits) - 1, sign));
      for (int i = 0; i < 2000; ++i)
        ASSERT_TRUE(leaves_the_tie_open(layout, random() % layout.infinity(), sign));
    }
  }
}

TEST(rounding, an_interval_is_decided_exactly_when_its_ends_agree) {
  double rounded = -1;
  const FloatFormat f32 = format_of(Dtype::f32);
  const auto tiny = ldexp(Real60(1), -151);
  EXPECT_TRUE(round_certainly(hull(Real60(-tiny), tiny), f32, false, rounded));
  EXPECT_EQ(rounded, 0);
  EXPECT_FALSE(round_certainly(hull(Real60(-1), Real60(1)), f32, false, rounded));
  EXPECT_TRUE(round_certainly(hull(Real60(1), Real60(1 + 0x1p-25)), f32, false, rounded));
  EXPECT_EQ(rounded, 1);
  EXPECT_FALSE(round_certainly(hull(Real60(1), Real60(1 + 0x1p-23)), f32, false, rounded));
  EXPECT_FALSE(round_certainly(hull(Real60(0x1.fffffep127), Real60(0x1p128)), f32, false, rounded));
  EXPECT_TRUE(round_certainly(hull(Real60(0x1p128), Real60(0x1p900)), f32, false, rounded));
  EXPECT_EQ(rounded, kInfinity);
}

}  // namespace
}  // namespace posproof
