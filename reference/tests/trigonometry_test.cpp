#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "reference/core/real.hpp"

namespace posproof {
namespace {

template <unsigned D>
mpfr_srcptr low(const Interval<D>& x) {
  return &x.backend().data()->left;
}
template <unsigned D>
mpfr_srcptr high(const Interval<D>& x) {
  return &x.backend().data()->right;
}

/// Every number of `inner` lies in `outer`. MPFR compares across precisions exactly.
template <unsigned A, unsigned B>
bool encloses(const Interval<A>& outer, const Interval<B>& inner) {
  return mpfr_lessequal_p(low(outer), low(inner)) && mpfr_lessequal_p(high(inner), high(outer));
}

template <unsigned D>
bool contains(const Interval<D>& x, double value) {
  return mpfr_cmp_d(low(x), value) <= 0 && mpfr_cmp_d(high(x), value) >= 0;
}

/// −log2 of the width of x relative to |x|: how many bits the interval knows.
template <unsigned D>
double known_bits(const Interval<D>& x) {
  const Interval<D> middle = (Interval<D>(lower(x)) + Interval<D>(upper(x))) / 2;
  mpfr_t width;
  mpfr_init2(width, 64);
  mpfr_sub(width, high(x), low(x), MPFR_RNDU);
  mpfr_div(width, width, low(middle), MPFR_RNDA);
  const double bits = mpfr_zero_p(width) ? 1e9 : -static_cast<double>(mpfr_get_exp(width));
  mpfr_clear(width);
  return bits;
}

/// The 320 bits of a Second, exactly: seven doubles hold them.
Real1000 exactly(const Second& x) {
  int exponent = 0;
  Second rest = frexp(x, &exponent);
  Real1000 sum(0);
  while (rest != 0) {
    const double part = rest.convert_to<double>();
    sum += Real1000(part);
    rest -= part;
  }
  return ldexp(sum, exponent);
}

/// |a − b| ≤ 2^−bits·|b|, or both are 0.
::testing::AssertionResult agree(const Second& a, const Real1000& b, int bits) {
  const Real1000 difference = exactly(a) - b;
  const Real1000 allowed = ldexp(abs(b), -bits);
  if (mpfr_cmpabs(low(difference), high(allowed)) <= 0 &&
      mpfr_cmpabs(high(difference), high(allowed)) <= 0)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "second arithmetic " << a.str(60) << ", interval " << lower(b).str(60);
}

/// Every level encloses the next, knows its full precision, and the second arithmetic agrees.
::testing::AssertionResult all_agree(double angle) {
  const auto at_60 = sin_cos(Real60(angle));
  const auto at_200 = sin_cos(Real200(angle));
  const auto at_1000 = sin_cos(Real1000(angle));
  const auto second = sin_cos(Second(angle));
  const auto one = [angle](const Real60& a, const Real200& b, const Real1000& c, const Second& d,
                           const char* name) -> ::testing::AssertionResult {
    const auto fail = [&] {
      return ::testing::AssertionFailure() << name << " of " << std::hexfloat << angle << ": ";
    };
    if (!encloses(a, b) || !encloses(b, c)) return fail() << "a level does not enclose the next";
    if (known_bits(a) < 190 || known_bits(b) < 650 || known_bits(c) < 3300)
      return fail() << "known bits " << known_bits(a) << " " << known_bits(b) << " "
                    << known_bits(c);
    const auto result = agree(d, c, 318);
    return result ? result : fail() << result.message();
  };
  const auto sine = one(at_60.sin, at_200.sin, at_1000.sin, second.sin, "sin");
  return sine ? one(at_60.cos, at_200.cos, at_1000.cos, second.cos, "cos") : sine;
}

/// The double nearest to k·π/2.
double near_quarter_turn(std::int64_t k) {
  mpfr_t x;
  mpfr_init2(x, 300);
  mpfr_const_pi(x, MPFR_RNDN);
  mpfr_mul_si(x, x, static_cast<long>(k), MPFR_RNDN);
  mpfr_div_2ui(x, x, 1, MPFR_RNDN);
  const double nearest = mpfr_get_d(x, MPFR_RNDN);
  mpfr_clear(x);
  return nearest;
}

TEST(sin_cos, doubles_next_to_multiples_of_half_pi_up_to_2_31) {
  std::vector<std::int64_t> quarters;
  for (std::int64_t k = 1; k <= 300; ++k) quarters.push_back(k);
  for (int e = 8; e < 31; ++e)
    for (std::int64_t k : {-1, 0, 1}) quarters.push_back((std::int64_t{1} << e) + k);
  std::mt19937_64 random(1);
  for (int i = 0; i < 700; ++i)
    quarters.push_back(static_cast<std::int64_t>(random() % 1367130551));  // 2^31/(π/2)
  for (std::int64_t k : quarters)
    for (double angle :
         {near_quarter_turn(k), -near_quarter_turn(k), std::nextafter(near_quarter_turn(k), 0)})
      ASSERT_TRUE(all_agree(angle)) << "k = " << k;
}

/// The 200 doubles of two million that come closest to their multiple of π/2: 66 to 75 bits cancel
/// in the reduction, so that one which is too short must show.
TEST(sin_cos, the_hardest_doubles_of_two_million) {
  std::vector<std::pair<double, double>> hardest;
  for (std::int64_t k = 1; k <= 2000000; ++k) {
    // 2^-106 from a double-double π/2 is enough to rank them.
    constexpr double kHigh = 0x1.921fb54442d18p0, kLow = 0x1.1a62633145c07p-54;
    const auto turns = static_cast<double>(k);
    const double angle = turns * kHigh;
    const double rest = std::fma(turns, kHigh, -angle) + turns * kLow;
    hardest.emplace_back(std::fabs(rest) / angle, angle);
  }
  std::nth_element(hardest.begin(), hardest.begin() + 200, hardest.end());
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(all_agree(hardest[i].second));
}

/// Numerators of the convergents of π (OEIS A002485) are the integers nearest to its multiples.
TEST(sin_cos, integers_next_to_multiples_of_pi) {
  for (double position :
       {3., 22., 333., 355., 103993., 104348., 208341., 312689., 833719., 1146408., 4272943.,
        5419351., 80143857., 165707065., 245850922., 411557987., 1068966896., 2147483647.})
    for (double angle : {position, -position, position / 2, position + 1})
      ASSERT_TRUE(all_agree(angle));
}

TEST(sin_cos, tiny_and_ordinary_angles) {
  for (double angle : {0x1p-1074, 1e-300, 1e-30, 0x1p-53, 1e-8, 0.001, 0.5, 1.0, 1.5707, 2.0, 3.0})
    ASSERT_TRUE(all_agree(angle));
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i)
    ASSERT_TRUE(all_agree(
        std::ldexp(static_cast<double>(random() >> 11), -22 - static_cast<int>(random() % 60))));
}

template <class R>
void expect_exact_at_zero() {
  const auto wave = sin_cos(R(0));
  EXPECT_TRUE(wave.sin == R(0));
  EXPECT_TRUE(wave.cos == R(1));
}

TEST(sin_cos, zero_is_exact) {
  expect_exact_at_zero<Real60>();
  expect_exact_at_zero<Real200>();
  expect_exact_at_zero<Real1000>();
  expect_exact_at_zero<Second>();
  const auto wave = sin_cos(Real60(0));
  EXPECT_TRUE(mpfr_zero_p(low(wave.sin)) && mpfr_zero_p(high(wave.sin)));
  EXPECT_TRUE(mpfr_equal_p(low(wave.cos), high(wave.cos)));
}

/// p·θ^(−2i/r), as rope.cos_sin reaches it: the angle is itself an interval.
template <class R>
R rope_angle(double position, double base, int i, int r) {
  return R(position) * power(R(base), R(R(-2.0 * i) / R(r)));
}

TEST(sin_cos, integers_times_rope_frequencies_enclose_each_other) {
  for (double base : {100., 10000., 150000., 500000., 1e6, 1e7})
    for (int r : {2, 6, 64, 80, 128})
      for (int i = 0; i < r / 2; i += 1 + r / 16)
        for (double position : {1., 2., 355., 4097., 65537., 1068966896., 2147483647., -300.}) {
          const Real60 angle = rope_angle<Real60>(position, base, i, r);
          const Real1000 finer = rope_angle<Real1000>(position, base, i, r);
          ASSERT_TRUE(encloses(angle, finer));
          ASSERT_GT(known_bits(angle), 180);
          const auto wave = sin_cos(angle);
          const auto truth = sin_cos(finer);
          ASSERT_TRUE(encloses(wave.sin, truth.sin) && encloses(wave.cos, truth.cos));
          // The angle is known to 2^-180 of itself; of sin and cos one may be small besides.
          const double lost = std::max(0.0, std::log2(std::fabs(position)));
          ASSERT_GT(known_bits(wave.sin) + known_bits(wave.cos), 2 * (180 - lost) - 40);
          const auto second = sin_cos(rope_angle<Second>(position, base, i, r));
          ASSERT_TRUE(agree(second.sin, truth.sin, 240)) << position << " " << base << " " << i;
          ASSERT_TRUE(agree(second.cos, truth.cos, 240)) << position << " " << base << " " << i;
        }
}

TEST(sin_cos, a_wide_angle_encloses_the_wave_of_every_number_in_it) {
  for (double middle : {0.0, 1.0, 1.5, 3.1, 100.0, -7.5})
    for (double radius : {1e-6, 0.1, 0.7, 4.0}) {
      Real60 angle;
      mpfi_interv_d(angle.backend().data(), middle - radius, middle + radius);
      const auto wave = sin_cos(angle);
      for (int i = -50; i <= 50; ++i) {
        const auto inside = sin_cos(Real200(middle + radius * i / 51));
        ASSERT_TRUE(encloses(wave.sin, inside.sin)) << middle << " " << radius << " " << i;
        ASSERT_TRUE(encloses(wave.cos, inside.cos)) << middle << " " << radius << " " << i;
      }
    }
}

template <class R>
void expect_published_digits(const R& value, const char* digits) {
  const R difference = abs(R(value - R(digits)));
  EXPECT_LT(estimate(difference), 1e-49) << digits;
}

/// Abramowitz and Stegun, tables 1.1 and 4.6 (there to fewer digits); OEIS A049469, A049470,
/// A001113, A002193.
template <class R>
void expect_known_constants() {
  const auto wave = sin_cos(R(1));
  expect_published_digits(wave.sin, "0.84147098480789650665250232163029899962256306079837");
  expect_published_digits(wave.cos, "0.54030230586813971740093660744297660373231042061792");
  expect_published_digits(exponential(R(1)),
                          "2.71828182845904523536028747135266249775724709369996");
  expect_published_digits(power(R(2), R(0.5)),
                          "1.41421356237309504880168872420969807856967187537695");
}

TEST(functions, constants_have_their_published_digits) {
  expect_known_constants<Real60>();
  expect_known_constants<Real200>();
  expect_known_constants<Real1000>();
  expect_known_constants<Second>();
}

TEST(functions, power_undone_by_integer_multiplication_is_the_base_again) {
  for (double base : {0.3, 2., 100., 10000., 500000., 1e7, 12345.678})
    for (int r : {2, 6, 64, 96, 256})
      for (int k = 1; k < r; k += 1 + r / 20) {
        const Real60 root = power(Real60(base), Real60(Real60(-k) / Real60(r)));
        Real60 whole = 1, expected = 1;
        for (int n = 0; n < r; ++n) whole *= root;
        for (int n = 0; n < k; ++n) expected *= Real60(base);
        // (base^(−k/r))^r·base^k = 1
        ASSERT_TRUE(contains(Real60(whole * expected), 1)) << base << "^" << -k << "/" << r;
        ASSERT_GT(known_bits(root), 185);
        const Real200 finer = power(Real200(base), Real200(Real200(-k) / Real200(r)));
        const Real1000 finest = power(Real1000(base), Real1000(Real1000(-k) / Real1000(r)));
        ASSERT_TRUE(encloses(root, finer) && encloses(finer, finest));
        ASSERT_TRUE(agree(power(Second(base), Second(Second(-k) / Second(r))), finest, 308));
      }
}

TEST(functions, a_whole_power_of_two_is_exact_and_any_other_is_enclosed) {
  for (int k = -1100; k <= 1100; k += 7) {
    const Real60 x = power_of_two(Real60(k), Real60(1), k);
    ASSERT_TRUE(mpfr_equal_p(low(x), high(x)));
    ASSERT_EQ(mpfr_cmp_ui_2exp(low(x), 1, k), 0);
    ASSERT_TRUE(power_of_two(Second(k), Second(1), k) == ldexp(Second(1), k));
  }
  for (int n : {3, 12, 16, 20, 71})
    for (int k = 1; k < n; ++k) {
      const Real60 slope = power_of_two(Real60(-8 * k), Real60(n), -8.0 * k / n);
      Real60 whole = 1;
      for (int i = 0; i < n; ++i) whole *= slope;
      ASSERT_TRUE(contains(Real60(ldexp(whole, 8 * k)), 1)) << k << "/" << n;
      ASSERT_GT(known_bits(slope), 185);
    }
}

TEST(functions, exponentials_enclose_each_other_and_undo_each_other) {
  for (double x : {-700., -20.5, -1., -1e-9, 0., 1e-300, 0.1, 1., 3.7, 88., 700.}) {
    const Real60 value = exponential(Real60(x));
    const Real200 finer = exponential(Real200(x));
    const Real1000 finest = exponential(Real1000(x));
    EXPECT_TRUE(encloses(value, finer) && encloses(finer, finest)) << x;
    EXPECT_GT(known_bits(value), 185) << x;
    EXPECT_TRUE(contains(Real60(value * exponential(Real60(-x))), 1)) << x;
    EXPECT_TRUE(agree(exponential(Second(x)), finest, 308)) << x;
  }
}

}  // namespace
}  // namespace posproof
