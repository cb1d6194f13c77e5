#include <array>

#include "properties/rope.hpp"

namespace posproof::properties::rope {
namespace {

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

/// cos² + sin² of every pair.
void magnitude_is_the_attention_factor(Subject& subject) {
  const Rotation rotation = drawn_rotation();
  const json parameters = rotation.frequencies(subject.drawn_dtype());
  const Range factor =
      subject.measure("rope.inv_freq", parameters, {}).at("attention_factor").range.data()[0];
  const auto table = subject.measure("rope.cos_sin", parameters,
                                     {{"positions", integers(*position_lists(3, kFar))}});
  bool tells = false;
  for (std::size_t i = 0; i < 3 * rotation.pairs; ++i) {
    const Pair wave(table.at("cos").range.data()[i], table.at("sin").range.data()[i]);
    require_meet(wave.dot(wave), factor * factor,
                 "cos² + sin² of pair " + std::to_string(i % rotation.pairs) +
                     " and the attention factor squared");
    tells = tells || radius(wave.dot(wave)) < 1. / 64;
  }
  RC_CLASSIFY(tells, "tells");
}

}  // namespace

std::vector<Law> laws_of_tables() {
  const Text apply{"rope.apply"}, tells{"tells"};
  return {{"rope/linear_scaling_is_a_fractional_position", apply,
           linear_scaling_is_a_fractional_position, tells},
          {"rope/the_first_pair_turns_by_one_radian_per_position", apply,
           the_first_pair_turns_by_one_radian_per_position, tells},
          {"rope/frequencies_are_geometric_from_1_to_the_base",
           {"rope.inv_freq"},
           frequencies_are_geometric_from_1_to_the_base,
           {"several pairs"}},
          {"rope/magnitude_is_the_attention_factor",
           {"rope.inv_freq", "rope.cos_sin"},
           magnitude_is_the_attention_factor,
           tells},
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
