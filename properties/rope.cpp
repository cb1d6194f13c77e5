#include "properties/rope.hpp"

#include <array>
#include <cmath>
#include <numeric>

namespace posproof::properties::rope {
namespace {

void score_depends_on_the_offset_only(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const Tensor qk = *tensors(subject.drawn_dtype(), {2, 1, rotation.head_dim});
  const std::int64_t m = *positions(kFar), n = *positions(kFar), shift = *positions(kFar);
  const Measured y =
      applied(subject, rotation, reordered(qk, {0, 1, 0, 1}, 0), {m, n, m + shift, n + shift});
  const Range here = dot(y, 0, 1), there = dot(y, 2, 3);
  require_meet(here, there, "scores at offset " + std::to_string(n - m));
  double size = 0;
  for (std::size_t lane = 0; lane < rotation.head_dim; ++lane)
    size += std::fabs(qk.value(lane) * qk.value(rotation.head_dim + lane));
  RC_CLASSIFY(m != n && shift != 0 && radius(here) + radius(there) < size / 64, "tells");
}

void rotation_preserves_the_norm_of_every_pair(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const Tensor x = *tensors(subject.drawn_dtype(), {3, 1, rotation.head_dim});
  const Measured y = applied(subject, rotation, x, *position_lists(3, kFar));
  bool tells = false;
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t i = 0; i < rotation.pairs; ++i) {
      const auto [first, second] = rotation.lanes(i);
      const std::size_t row = t * rotation.head_dim;
      const Pair before(Range(x.value(row + first)), Range(x.value(row + second)));
      const Pair after(y.range(t, 0, first), y.range(t, 0, second));
      require_meet(before.dot(before), after.dot(after), "pair " + std::to_string(i));
      tells = tells || radius(after.dot(after)) < estimate(before.dot(before)) / 64;
    }
  RC_CLASSIFY(tells, "tells");
}

void rotation_is_orthogonal(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const Matrix turn = matrix_of(subject, rotation, subject.drawn_dtype(), *positions(kFar));
  const Matrix identity = Matrix::Identity(turn.rows(), turn.cols());
  require_same(turn.transpose().lazyProduct(turn), identity, "RᵀR");
  RC_CLASSIFY(radius_of_block(turn, rotation) < 1. / 64, "tells");
}

void rotations_compose(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const Dtype dtype = subject.drawn_dtype();
  const std::int64_t a = *positions(kFar), b = *positions(kFar);
  const Matrix first = matrix_of(subject, rotation, dtype, a),
               second = matrix_of(subject, rotation, dtype, b),
               both = matrix_of(subject, rotation, dtype, a + b);
  require_same(first.lazyProduct(second), both, "R(a)R(b)");
  RC_CLASSIFY(a != 0 && b != 0 && radius_of_block(both, rotation) < 1. / 64, "tells");
}

void inverse_undoes_the_rotation(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const Dtype dtype = subject.drawn_dtype();
  const std::int64_t p = *positions(kFar);
  const Matrix turn = matrix_of(subject, rotation, dtype, p),
               back = matrix_of(subject, rotation.with("inverse", true), dtype, p);
  require_same(back.lazyProduct(turn), Matrix::Identity(turn.rows(), turn.cols()), "R⁻¹R");
  require_same(back, matrix_of(subject, rotation, dtype, -p), "R⁻¹ and R(−p)");
  RC_CLASSIFY(p != 0 && radius_of_block(turn, rotation) < 1. / 64, "tells");
}

void position_0_changes_nothing(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const Tensor x = *tensors(subject.drawn_dtype(), {2, 1, rotation.head_dim});
  const Measured y = applied(subject, rotation, x, {0, 0});
  for (std::size_t i = 0; i < x.size(); ++i) RC_ASSERT(y.got.value(i) == x.value(i));
}

void the_tail_keeps_its_bits(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const std::size_t d = rotation.head_dim, r = 2 * rotation.pairs;
  const Dtype dtype = subject.drawn_dtype();
  const Tensor x = *tensors(dtype, {2, 1, d}), tail = *tensors_of_any_bits(dtype, {2, 1, d});
  Tensor whole = tail;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i % d < r) whole.set(i, x.value(i));
  const Measured y = applied(subject, rotation, whole, *position_lists(2, kFar));
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i % d >= r)
      RC_ASSERT(y.got.bits(i) == whole.bits(i) ||
                (std::isnan(y.got.value(i)) && std::isnan(whole.value(i))));
  RC_CLASSIFY(r < d, "has a tail");
}

void layouts_are_equal_up_to_the_lane_permutation(Subject& subject) {
  const Rotation half = drawn_rotation().with("layout", "half"),
                 interleaved = half.with("layout", "interleaved");
  const Tensor x = *tensors(subject.drawn_dtype(), {2, 1, half.head_dim});
  std::vector<std::size_t> order(half.head_dim);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i < half.pairs; ++i) {
    order[interleaved.lanes(i).first] = half.lanes(i).first;
    order[interleaved.lanes(i).second] = half.lanes(i).second;
  }
  const std::vector<std::int64_t> at = *position_lists(2, kFar);
  const Measured y = applied(subject, half, x, at),
                 z = applied(subject, interleaved, reordered(x, order, 2), at);
  for (std::size_t t = 0; t < 2; ++t)
    for (std::size_t lane = 0; lane < half.head_dim; ++lane)
      require_meet(y.range(t, 0, order[lane]), z.range(t, 0, lane),
                   "half and interleaved lane " + std::to_string(lane));
  RC_CLASSIFY(half.pairs > 1 && at[0] != 0, "several pairs");
}

/// On a lattice that holds every sum in every type.
void rotation_is_linear(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const Dtype dtype = subject.drawn_dtype();
  const auto eighths =
      *rc::gen::container<std::vector<std::int64_t>>(2 * rotation.head_dim, between(-8, 8));
  const std::vector<double> factors{1, -1, 2, 0.5, -0.5};
  const double a = *one_of(factors), b = *one_of(factors);
  const int exponent = static_cast<int>(*between(-8, 3));
  Tensor x(dtype, {3, 1, rotation.head_dim});
  for (std::size_t lane = 0; lane < rotation.head_dim; ++lane) {
    const double first = std::ldexp(static_cast<double>(eighths[lane]), exponent),
                 second =
                     std::ldexp(static_cast<double>(eighths[rotation.head_dim + lane]), exponent);
    const std::array values{first, second, a * first + b * second};
    for (std::size_t row = 0; row < 3; ++row) x.set(row * rotation.head_dim + lane, values[row]);
  }
  const std::int64_t p = *positions(kFar);
  const Measured y = applied(subject, rotation, x, {p, p, p});
  double error = 0, size = 0;
  for (std::size_t lane = 0; lane < rotation.head_dim; ++lane) {
    require_meet(y.range(2, 0, lane),
                 Range(a) * y.range(0, 0, lane) + Range(b) * y.range(1, 0, lane),
                 "R(ax + by) and aR(x) + bR(y), lane " + std::to_string(lane));
    error = std::max(error, radius(y.range(2, 0, lane)));
    size = std::max(size, std::fabs(x.value(2 * rotation.head_dim + lane)));
  }
  RC_CLASSIFY(p != 0 && a != b && error < size / 64, "tells");
}

/// In the first pair, (cos, sin) of two positions are 2·|sin(Δ/2)| apart, and so at least 1/√2 of
/// that in one of the two, unless no true change exceeds the bounds twice, one for the answer and
/// one for what it says of the truth.
void distinct_positions_turn_differently(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const std::int64_t p = *positions(kFar), step = *rc::gen::weightedOneOf<std::int64_t>(
                                               {{1, between(1, 7)}, {1, positions(kFar)}});
  const auto [first, second] = rotation.lanes(0);
  Tensor x(subject.drawn_dtype(), {2, 1, rotation.head_dim});
  for (std::size_t row : {0, 1}) x.set(row * rotation.head_dim + first, 1);
  const Measured y = applied(subject, rotation, x, {p, p + step});
  bool differ = false;
  double error = 0;
  for (std::size_t lane : {first, second}) {
    const Range &here = y.range(0, 0, lane), &there = y.range(1, 0, lane);
    differ = differ || !meet(here, there);
    error = std::max(error, radius(here) + radius(there));
  }
  const Range half_turn = Range(static_cast<double>(step)) / Range(2 * rotation.factor());
  const double apart = 2 * std::fabs(estimate(sin_cos(half_turn).sin));
  const bool must_differ = apart / std::sqrt(2.) > 2 * error * (1 + 1e-9) + 1e-12;
  if (must_differ && !differ)
    RC_FAIL("positions " + std::to_string(p) + " and " + std::to_string(p + step) +
            " turn the first pair alike");
  RC_CLASSIFY(must_differ && step == 1, "neighbours");
  RC_CLASSIFY(must_differ && std::abs(step) > 7, "far apart");
}

/// A cache that moves is turned on from what it holds, rounding and all: an error (e1, e2) of a
/// pair becomes at most |e1| + |e2| in each of its lanes.
void a_shifted_cache_equals_rotating_once(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const Tensor x = *tensors(subject.drawn_dtype(), {1, 1, rotation.head_dim});
  const auto shifts =
      *rc::gen::container<std::vector<std::int64_t>>(*count_between(1, 4), positions(kFar / 4));
  std::int64_t at = *positions(kFar);
  Measured cached = applied(subject, rotation, x, {at});
  std::vector<double> carried(rotation.head_dim, 0);
  for (std::int64_t shift : shifts) {
    for (std::size_t i = 0; i < rotation.pairs; ++i) {
      const auto [first, second] = rotation.lanes(i);
      carried[first] = carried[second] =
          carried[first] + cached.limit[first] + carried[second] + cached.limit[second];
    }
    cached = applied(subject, rotation, cached.got, {shift});
    at += shift;
  }
  const Measured once = applied(subject, rotation, x, {at});
  double error = 0, size = 0;
  for (std::size_t lane = 0; lane < rotation.head_dim; ++lane) {
    require_meet(cached.range(0, 0, lane) + range_around(0, carried[lane] * (1 + 1e-9)),
                 once.range(0, 0, lane), "turned on and turned once, lane " + std::to_string(lane));
    error = std::max(error, carried[lane] + radius(once.range(0, 0, lane)));
    size = std::max(size, std::fabs(x.value(lane)));
  }
  const bool tells = shifts[0] != 0 && error < size / 16;
  RC_CLASSIFY(tells && shifts[0] < 0, "moved towards the start");
  RC_CLASSIFY(tells && shifts.size() > 2, "moved several times");
}

}  // namespace

std::vector<Law> laws() {
  const Text apply{"rope.apply"}, tells{"tells"};
  std::vector<Law> all{
      {"rope/score_depends_on_the_offset_only", apply, score_depends_on_the_offset_only, tells},
      {"rope/rotation_preserves_the_norm_of_every_pair", apply,
       rotation_preserves_the_norm_of_every_pair, tells},
      {"rope/rotation_is_orthogonal", apply, rotation_is_orthogonal, tells},
      {"rope/rotations_compose", apply, rotations_compose, tells},
      {"rope/inverse_undoes_the_rotation", apply, inverse_undoes_the_rotation, tells},
      {"rope/position_0_changes_nothing", apply, position_0_changes_nothing},
      {"rope/the_tail_keeps_its_bits", apply, the_tail_keeps_its_bits, {"has a tail"}},
      {"rope/layouts_are_equal_up_to_the_lane_permutation",
       apply,
       layouts_are_equal_up_to_the_lane_permutation,
       {"several pairs"}},
      {"rope/rotation_is_linear", apply, rotation_is_linear, tells},
      {"rope/distinct_positions_turn_differently",
       apply,
       distinct_positions_turn_differently,
       {"neighbours", "far apart"}},
      {"rope/a_shifted_cache_equals_rotating_once",
       apply,
       a_shifted_cache_equals_rotating_once,
       {"moved towards the start", "moved several times"}}};
  for (Law& law : laws_of_tables()) all.push_back(std::move(law));
  return all;
}

}  // namespace posproof::properties::rope
