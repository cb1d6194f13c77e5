#include "properties/sinusoidal.hpp"

#include "reference/core/registry.hpp"
#include "reference/sinusoidal.hpp"

namespace posproof::properties::sinusoidal {
namespace {

/// PE(p+k) = [[cos kω, sin kω], [−sin kω, cos kω]]·PE(p) for every pair.
void a_step_rotates_every_pair(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const std::int64_t p = *positions(kFar), k = *positions(kFar);
  const Rows rows(subject, encoding, {p, p + k});
  const Parameters parameters =
      checked_parameters(find_operation("sinusoidal.table"), encoding.parameters);
  bool tells = false;
  for (std::size_t i = 0; i < encoding.pairs(); ++i) {
    const Range omega = reference::sinusoidal::frequency<Range>(parameters, i);
    const SinCos<Range> step = sin_cos(Range(Range(static_cast<double>(k)) * omega));
    Eigen::Matrix<Range, 2, 2> turn;
    turn << step.cos, step.sin, Range(-step.sin), step.cos;
    const Pair turned = turn * rows.pair(0, i), expected = rows.pair(1, i);
    for (int lane : {0, 1}) require_meet(turned(lane), expected(lane), of_pair(i));
    tells = tells || (k != 0 && radius(turned(0)) < encoding.scale / 64);
  }
  RC_CLASSIFY(tells, "tells");
  RC_CLASSIFY(encoding.pairs() > 1 && tells, "several pairs");
}

void every_pair_lies_on_the_unit_circle(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const Rows rows(subject, encoding, *position_lists(3, kFar));
  bool tells = false;
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t i = 0; i < encoding.pairs(); ++i) {
      const Pair pair = rows.pair(row, i);
      const Range norm = pair.dot(pair);
      require_meet(norm, Range(encoding.scale * encoding.scale), of_pair(i));
      tells = tells || radius(norm) < encoding.scale * encoding.scale / 64;
    }
  RC_CLASSIFY(tells, "tells");
}

void the_dot_product_of_two_rows_depends_on_their_distance_only(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const std::int64_t m = *positions(kFar), n = *positions(kFar), shift = *positions(kFar);
  const Rows rows(subject, encoding, {m, n, m + shift, n + shift});
  const Range here = rows.dot(0, 1), there = rows.dot(2, 3);
  require_meet(here, there, "dot products of rows " + std::to_string(n - m) + " apart");
  const double whole = static_cast<double>(encoding.pairs()) * encoding.scale * encoding.scale;
  RC_CLASSIFY(m != n && shift != 0 && radius(here) + radius(there) < whole / 64, "tells");
}

/// Attention tells positions apart by their rows: those of 0, 1, …, 7 differ in the first pair
/// alone.
void near_positions_have_rows_of_their_own(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const std::int64_t first = *positions(1024);
  const Rows rows(subject, encoding, {first, first + *between(1, 7)});
  const Pair a = rows.pair(0, 0), b = rows.pair(1, 0);
  RC_ASSERT(!meet(a(0), b(0)) || !meet(a(1), b(1)));
}

/// The angle of position 1 is the frequency: every ω is in (0, 1], where atan2 has one answer.
Range frequency_read_off(const Pair& at_1) {
  Range omega;
  mpfi_atan2(omega.backend().data(), at_1(0).backend().data(), at_1(1).backend().data());
  return omega;
}

/// 2π/ω_i = 2π·base^(i/n), from 2π to 2π·base^(1 − 2/d) where n = d/2: that is ω_i^2n·base^2i = 1.
void wavelengths_are_geometric_from_2_pi(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const Rows rows(subject, encoding, {1});
  const std::size_t pairs = encoding.pairs();
  const bool is_half = encoding.parameters.value("denominator", "half") == "half";
  const std::size_t twice_n = is_half ? encoding.width : 2 * (pairs - 1);
  bool tells = false;
  for (std::size_t i = 0; i < pairs; ++i) {
    const Range omega = frequency_read_off(rows.pair(0, i));
    Range product = i == 0 ? omega : Range(1);
    for (std::size_t n = 0; i > 0 && n < twice_n; ++n) product *= omega;
    for (std::size_t n = 0; n < 2 * i; ++n)
      product *= Range(encoding.parameters["base"].get<double>());
    require_meet(product, Range(1), "frequency of " + of_pair(i));
    tells = tells || (i == pairs - 1 && radius(product) < 1. / 4);
  }
  RC_CLASSIFY(tells && pairs > 2 && is_half, "half");
  RC_CLASSIFY(tells && pairs > 2 && !is_half, "half minus one");
}

/// sin 0 = 0 and cos 0 = 1, and an odd width ends in 0.
void position_0_and_padding_are_exact(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const Rows rows(subject, encoding, {0, *positions(kFar)});
  for (std::size_t i = 0; i < encoding.pairs(); ++i) {
    const Pair pair = rows.pair(0, i);
    RC_ASSERT(estimate(pair(0)) == 0);
    RC_ASSERT(estimate(pair(1)) == encoding.scale);
  }
  const bool odd = encoding.width % 2 != 0;
  if (odd)
    for (std::size_t row : {1, 2}) RC_ASSERT(rows.table().got.value(row * encoding.width - 1) == 0);
  RC_CLASSIFY(odd, "odd width");
}

}  // namespace

std::vector<Law> laws() {
  const std::vector<std::string> table{"sinusoidal.table"};
  std::vector<Law> all{
      {"sinusoidal/a_step_rotates_every_pair", table, a_step_rotates_every_pair, {"several pairs"}},
      {"sinusoidal/every_pair_lies_on_the_unit_circle",
       table,
       every_pair_lies_on_the_unit_circle,
       {"tells"}},
      {"sinusoidal/the_dot_product_of_two_rows_depends_on_their_distance_only",
       table,
       the_dot_product_of_two_rows_depends_on_their_distance_only,
       {"tells"}},
      {"sinusoidal/near_positions_have_rows_of_their_own", table,
       near_positions_have_rows_of_their_own},
      {"sinusoidal/position_0_and_padding_are_exact",
       table,
       position_0_and_padding_are_exact,
       {"odd width"}},
      {"sinusoidal/wavelengths_are_geometric_from_2_pi",
       table,
       wavelengths_are_geometric_from_2_pi,
       {"half", "half minus one"}}};
  for (Law& law : laws_of_extrapolation()) all.push_back(std::move(law));
  return all;
}

}  // namespace posproof::properties::sinusoidal
