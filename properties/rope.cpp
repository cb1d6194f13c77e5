#include "properties/rope.hpp"

#include <array>
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

void linear_scaling_is_a_fractional_position(Subject& subject) {
  Rotation plain = drawn_rotation();
  plain.parameters.erase("rope_scaling");
  const std::int64_t quarters = *between(1, 64);
  const double factor = static_cast<double>(quarters) / 4;
  const Rotation scaled = plain.with("rope_scaling", {{"rope_type", "linear"}, {"factor", factor}});
  const Tensor x = *tensors(subject.drawn_dtype(), {1, 1, plain.head_dim});
  const std::int64_t p = *positions(1 << 20);
  const Measured y = applied(subject, plain, x, {4 * p}),
                 z = applied(subject, scaled, x, {quarters * p});
  for (std::size_t lane = 0; lane < plain.head_dim; ++lane)
    require_meet(y.range(0, 0, lane), z.range(0, 0, lane), "lane " + std::to_string(lane));
  RC_CLASSIFY(p != 0 && quarters != 4 && radius(z.range(0, 0, 0)) < std::fabs(x.value(0)) / 64,
              "tells");
}

/// What none of the laws of a rotation see: which way, and how fast. (cos, sin) of one radian a
/// position, in the first pair.
void the_first_pair_turns_by_one_radian_per_position(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const std::int64_t p = *positions(kFar);
  const Matrix turn = matrix_of(subject, rotation, subject.drawn_dtype(), p);
  const auto [first, second] = rotation.lanes(0);
  const SinCos<Range> wave =
      sin_cos(Range(Range(static_cast<double>(p)) / Range(rotation.factor())));
  require_meet(turn(first, first), wave.cos, "cos");
  require_meet(turn(second, first), wave.sin, "sin");
  RC_CLASSIFY(p != 0 && radius(turn(second, first)) < 1. / 64, "tells");
}

/// (ω_i·factor)^(r/2)·θ^i = 1.
void frequencies_are_geometric_from_1_to_the_base(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const Measured omega =
      subject.measure("rope.inv_freq", rotation.frequencies(subject.drawn_dtype()), {})
          .at("inv_freq");
  for (std::size_t i = 0; i < rotation.pairs; ++i) {
    Range product(1);
    for (std::size_t n = 0; n < rotation.pairs; ++n)
      product *= omega.range(i) * Range(rotation.factor());
    for (std::size_t n = 0; n < i; ++n)
      product *= Range(rotation.parameters["rope_theta"].get<double>());
    require_meet(product, Range(1), "frequency " + std::to_string(i));
  }
  RC_CLASSIFY(rotation.pairs > 2, "several pairs");
}

void apply_turns_by_the_cos_and_sin_of_the_table(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const Dtype dtype = subject.drawn_dtype();
  const std::vector<std::int64_t> at = *position_lists(2, kFar);
  const std::size_t heads = *count_between(1, 3);
  const Tensor x = *tensors(dtype, {2, heads, rotation.head_dim});
  const auto table =
      subject.measure("rope.cos_sin", rotation.frequencies(dtype), {{"positions", integers(at)}});
  const Measured y = applied(subject, rotation, x, at);
  for (std::size_t t = 0; t < 2; ++t)
    for (std::size_t n = 0; n < heads * rotation.pairs; ++n) {
      const std::size_t h = n / rotation.pairs, i = n % rotation.pairs;
      const Range cos = table.at("cos").range(t, i), sin = table.at("sin").range(t, i);
      const auto [first, second] = rotation.lanes(i);
      const std::size_t row = (t * heads + h) * rotation.head_dim;
      const Range x1(x.value(row + first)), x2(x.value(row + second));
      require_meet(y.range(t, h, first), x1 * cos - x2 * sin, "first of pair " + std::to_string(i));
      require_meet(y.range(t, h, second), x1 * sin + x2 * cos,
                   "second of pair " + std::to_string(i));
    }
  RC_CLASSIFY(heads > 1 && at[1] != 0 && radius(table.at("sin").range(1, 0)) < 1. / 64, "tells");
}

/// cos and sin of quarter turns make signed copies: exact in any arithmetic.
void given_quarter_turns_move_lanes_exactly(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const Dtype dtype = subject.drawn_dtype();
  const bool inverse = *rc::gen::arbitrary<bool>();
  const Tensor x = *tensors(dtype, {1, 1, rotation.head_dim});
  const auto quarters =
      *rc::gen::container<std::vector<std::int64_t>>(rotation.pairs, between(0, 3));
  Tensor cos(dtype, {1, rotation.pairs}), sin(dtype, {1, rotation.pairs}), expected = x;
  for (std::size_t i = 0; i < rotation.pairs; ++i) {
    const double c = std::array{1., 0., -1., 0.}[static_cast<std::size_t>(quarters[i])],
                 s = std::array{0., 1., 0., -1.}[static_cast<std::size_t>(quarters[i])],
                 turn = inverse ? -s : s;
    cos.set(i, c);
    sin.set(i, s);
    const auto [first, second] = rotation.lanes(i);
    expected.set(first, x.value(first) * c - x.value(second) * turn);
    expected.set(second, x.value(first) * turn + x.value(second) * c);
  }
  const Measured y =
      subject
          .measure("rope.rotate", {{"layout", rotation.parameters["layout"]}, {"inverse", inverse}},
                   {{"x", x}, {"cos", cos}, {"sin", sin}})
          .at("y");
  for (std::size_t i = 0; i < x.size(); ++i) RC_ASSERT(y.got.value(i) == expected.value(i));
  RC_CLASSIFY(inverse && rotation.pairs > 1, "several pairs, inverse");
}

}  // namespace

std::vector<Law> laws() {
  const Text apply{"rope.apply"}, tells{"tells"};
  return {{"rope/score_depends_on_the_offset_only", apply, score_depends_on_the_offset_only, tells},
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
          {"rope/linear_scaling_is_a_fractional_position", apply,
           linear_scaling_is_a_fractional_position, tells},
          {"rope/the_first_pair_turns_by_one_radian_per_position", apply,
           the_first_pair_turns_by_one_radian_per_position, tells},
          {"rope/frequencies_are_geometric_from_1_to_the_base",
           {"rope.inv_freq"},
           frequencies_are_geometric_from_1_to_the_base,
           {"several pairs"}},
          {"rope/apply_turns_by_the_cos_and_sin_of_the_table",
           {"rope.apply", "rope.cos_sin"},
           apply_turns_by_the_cos_and_sin_of_the_table,
           tells},
          {"rope/given_quarter_turns_move_lanes_exactly",
           {"rope.rotate"},
           given_quarter_turns_move_lanes_exactly,
           {"several pairs, inverse"}}};
}

}  // namespace posproof::properties::rope
