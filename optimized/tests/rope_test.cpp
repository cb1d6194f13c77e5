#include "optimized/rope.hpp"

#include "optimized/tests/shared.hpp"

namespace posproof::optimized::tests {
namespace {

using rope::Angles;
using rope::Heads;
using rope::Layout;

constexpr Layout kLayouts[] = {Layout::half, Layout::interleaved};

template <class T>
class Rope : public ::testing::Test {};
TYPED_TEST_SUITE(Rope, Types);

/// Rows of cos and sin, packed.
template <class T>
struct Waves {
  std::vector<T> cos, sin;

  Waves(const Angles& angles, std::int64_t first, std::size_t count)
      : cos(count * angles.pairs()), sin(cos.size()) {
    angles.cos_sin(first, count, cos.data(), sin.data(),
                   static_cast<std::ptrdiff_t>(angles.pairs()));
  }
};

TYPED_TEST(Rope, tables_have_the_bits_of_plain_code_for_every_width_and_stay_within_their_rows) {
  using T = TypeParam;
  std::vector<std::size_t> widths;
  for (std::size_t pairs = 1; pairs <= 70; ++pairs) widths.push_back(pairs);
  for (std::size_t pairs : {127, 128, 129, 255, 256, 257}) widths.push_back(pairs);
  for (const std::size_t pairs : widths) {
    const Angles angles(2 * pairs, 500000), plain(2 * pairs, 500000, 1, Isa::scalar);
    std::size_t turn = pairs;
    for (const std::size_t rows : {0, 1, 2, 3, 9}) {
      const Waves<T> expected(plain, -4, rows);
      const Region region = Region::of(rows, pairs, turn % 3);
      Memory<T> cos(region, kOffsets[turn % 4]), sin(region, kOffsets[(turn + 1) % 4]);
      Memory<T> listed_cos(region, kOffsets[(turn + 2) % 4]),
          listed_sin(region, kOffsets[turn % 4]);
      ++turn;
      const std::int64_t list[] = {-4, -3, -2, -1, 0, 1, 2, 3, 4};
      angles.cos_sin(-4, rows, cos.data(), sin.data(), region.row_stride);
      ASSERT_EQ(last_isa(), forced_isa());
      angles.cos_sin(list, rows, listed_cos.data(), listed_sin.data(), region.row_stride);
      for (Memory<T>* memory : {&cos, &sin, &listed_cos, &listed_sin}) {
        const bool is_cos = memory == &cos || memory == &listed_cos;
        ASSERT_EQ(difference(memory->packed(), is_cos ? expected.cos : expected.sin), "") << pairs;
        ASSERT_EQ(memory->touched(), "") << pairs << " " << rows;
      }
    }
  }
}

TYPED_TEST(Rope, tables_are_the_same_in_pieces_on_two_threads_and_from_lists) {
  using T = TypeParam;
  const std::size_t pairs = 35, count = 777;
  const Angles angles(2 * pairs, 10000, 4);
  for (const std::int64_t first : {std::int64_t{-300}, (std::int64_t{1} << 31) - 777}) {
    const Waves<T> expected(angles, first, count);
    Waves<T> found(angles, 0, count);
    on_two_threads(count, [&](std::size_t row, std::size_t some) {
      for (std::size_t done = 0; done < some; done += 100)
        angles.cos_sin(first + static_cast<std::int64_t>(row + done),
                       std::min<std::size_t>(100, some - done), &found.cos[(row + done) * pairs],
                       &found.sin[(row + done) * pairs], pairs);
    });
    EXPECT_EQ(difference(found.cos, expected.cos), "");
    EXPECT_EQ(difference(found.sin, expected.sin), "");
    std::vector<std::int32_t> list;
    for (std::size_t row = 0; row < count; ++row)
      list.push_back(static_cast<std::int32_t>(first + static_cast<std::int64_t>(row)));
    Waves<T> listed(angles, 0, count);
    angles.cos_sin(list.data(), count, listed.cos.data(), listed.sin.data(), pairs);
    EXPECT_EQ(difference(listed.cos, expected.cos), "");
    EXPECT_EQ(difference(listed.sin, expected.sin), "");
  }
}

/// sin x < x, by far less than the fast path sees: a midpoint times a small angle is rounded down,
/// where the tie would go up.
TYPED_TEST(Rope, a_sine_just_below_a_midpoint_is_rounded_down) {
  using T = TypeParam;
  const double quantum = std::ldexp(1, 1 - format<T>().digits);
  for (const double position : {1.0, 2.0, -1.0, 8.0}) {
    const double turns[] = {0x1p-40 * (1 + 1.5 * quantum) / std::fabs(position)};
    const Angles angles(turns, 0x1p38);
    const double expected = std::copysign(0x1p-2 * (1 + quantum), position);
    const auto at = static_cast<std::int64_t>(position);
    T cos[5], sin[5], listed_cos, listed_sin;
    angles.cos_sin(at, 5, cos, sin, 1);
    angles.cos_sin(&at, 1, &listed_cos, &listed_sin, 1);
    EXPECT_EQ(value(sin[0]), expected) << position;
    EXPECT_EQ(value(listed_sin), expected) << position;
  }
}

TEST(RopeF32Angles, have_the_bits_of_plain_code_for_every_width_and_stay_within_their_rows) {
  for (std::size_t pairs = 1; pairs <= 70; ++pairs) {
    const rope::F32Angles angles(2 * pairs, 10000), plain(2 * pairs, 10000, 1, Isa::scalar);
    std::size_t turn = pairs;
    for (const std::int64_t first :
         {std::int64_t{-4}, (std::int64_t{1} << 24) - 3, (std::int64_t{1} << 31) - 9})
      for (const std::size_t rows : {0, 1, 2, 3, 9}) {
        std::vector<float> expected_cos(rows * pairs), expected_sin(rows * pairs);
        plain.cos_sin(first, rows, expected_cos.data(), expected_sin.data(),
                      static_cast<std::ptrdiff_t>(pairs));
        const Region region = Region::of(rows, pairs, turn % 3);
        Memory<float> cos(region, kOffsets[turn % 4]), sin(region, kOffsets[(turn + 1) % 4]);
        ++turn;
        angles.cos_sin(first, rows, cos.data(), sin.data(), region.row_stride);
        ASSERT_EQ(last_isa(), forced_isa());
        ASSERT_EQ(difference(cos.packed(), expected_cos), "") << pairs << " " << first;
        ASSERT_EQ(difference(sin.packed(), expected_sin), "") << pairs << " " << first;
        ASSERT_EQ(cos.touched(), "");
        ASSERT_EQ(sin.touched(), "");
      }
  }
}

/// One pair by the rule of the header, in double and std::fma only.
struct Turned {
  float first, second;

  Turned(double x1, double x2, float cos, float sin) {
    const auto a = static_cast<float>(x1), b = static_cast<float>(x2);
    const bool swaps = std::fabs(sin) > std::fabs(cos);
    first = swaps ? std::fma(b, -sin, a * cos) : std::fma(a, cos, b * -sin);
    second = swaps ? std::fma(a, sin, b * cos) : std::fma(b, cos, a * sin);
  }
};

struct Shape {
  std::size_t tokens, heads, head_dim, pairs;
};

template <class T>
std::vector<T> turned(const Shape& shape, const std::vector<T>& x, const std::vector<float>& cos,
                      const std::vector<float>& sin, Layout layout, bool inverse) {
  std::vector<T> y = x;
  for (std::size_t t = 0; t < shape.tokens; ++t)
    for (std::size_t h = 0; h < shape.heads; ++h)
      for (std::size_t i = 0; i < shape.pairs; ++i) {
        const std::size_t head = (t * shape.heads + h) * shape.head_dim;
        const std::size_t first = head + (layout == Layout::half ? i : 2 * i);
        const std::size_t second = head + (layout == Layout::half ? i + shape.pairs : 2 * i + 1);
        const float s = sin[t * shape.pairs + i];
        const Turned pair(value(x[first]), value(x[second]), cos[t * shape.pairs + i],
                          inverse ? -s : s);
        y[first] = encoded<T>(pair.first);
        y[second] = encoded<T>(pair.second);
      }
  return y;
}

/// Values of which cos² + sin² is about 1, either one the larger, both signs, and quarter turns.
Waves<float> some_waves(std::size_t pairs, std::size_t tokens) {
  Waves<float> waves(Angles(2 * pairs, 10000), -2, tokens);
  if (waves.cos.size() > 3) waves.cos[3] = 0, waves.sin[3] = -1;
  return waves;
}

template <class T>
std::vector<T> some_lanes(std::size_t count, std::uint64_t seed) {
  std::vector<T> x = Generator(seed).numbers<T>(count);
  if (count > 9) x[7] = T{}, x[9] = from_bits<T>(1);
  return x;
}

TYPED_TEST(Rope, rotation_is_the_formula_for_every_width_layout_and_direction) {
  using T = TypeParam;
  std::size_t turn = 0;
  for (std::size_t pairs = 1; pairs <= 140; pairs += pairs < 70 ? 1 : 13) {
    for (const std::size_t tail : {0, 1, 5}) {
      const Shape shape{1 + turn % 3, 1 + turn / 3 % 4, 2 * pairs + tail, pairs};
      const Waves<float> waves = some_waves(pairs, shape.tokens);
      std::vector<T> x = some_lanes<T>(shape.tokens * shape.heads * shape.head_dim, turn);
      // Tail lanes are bits, whatever they mean.
      for (std::size_t head = 0; head < shape.tokens * shape.heads; ++head)
        for (std::size_t lane = 2 * pairs; lane < shape.head_dim; ++lane)
          x[head * shape.head_dim + lane] =
              from_bits<T>(lane == 2 * pairs ? (std::is_same_v<T, float> ? 0x7f812345u : 0x7f81u)
                                             : Generator(lane)());
      for (const Layout layout : kLayouts)
        for (const bool inverse : {false, true}) {
          ++turn;
          const std::vector<T> expected = turned(shape, x, waves.cos, waves.sin, layout, inverse);
          const std::size_t gap = turn % 4, token_gap = turn % 3;
          const Region region =
              Region::of(shape.tokens, shape.heads, shape.head_dim, gap, token_gap);
          Memory<T> from(region, kOffsets[turn % 4], 5), to(region, kOffsets[turn / 2 % 4], 6),
              both(region, kOffsets[turn / 3 % 4], 7);
          from.set(x);
          both.set(x);
          const Region table = Region::of(shape.tokens, pairs, turn % 2);
          Memory<float> cos(table, kOffsets[(turn + 1) % 4], 8), sin(table, kOffsets[turn % 4], 9);
          cos.set(waves.cos);
          sin.set(waves.sin);
          const auto heads = [&](Memory<T>& in, Memory<T>& out) {
            return Heads<T>{in.data(),         out.data(),          shape.tokens,
                            shape.heads,       shape.head_dim,      region.plane_stride,
                            region.row_stride, region.plane_stride, region.row_stride};
          };
          rope::rotate(heads(from, to), cos.data(), sin.data(), pairs, table.row_stride, layout,
                       inverse);
          ASSERT_EQ(last_isa(), forced_isa());
          rope::rotate(heads(both, both), cos.data(), sin.data(), pairs, table.row_stride, layout,
                       inverse);
          ASSERT_EQ(difference(to.packed(), expected), "") << pairs << "+" << tail;
          ASSERT_EQ(difference(both.packed(), expected), "") << pairs << "+" << tail;
          ASSERT_EQ(difference(from.packed(), x), "");
          for (Memory<T>* memory : {&from, &to, &both}) ASSERT_EQ(memory->touched(), "") << pairs;
        }
    }
  }
}

/// From 2 MiB on memory is asked for ahead.
TYPED_TEST(Rope, rotation_of_much_is_that_of_its_tokens) {
  using T = TypeParam;
  const Shape shape{230, 32, 160, 64};
  const Waves<float> waves = some_waves(shape.pairs, shape.tokens);
  const std::vector<T> x = some_lanes<T>(shape.tokens * shape.heads * shape.head_dim, 1);
  const std::size_t token = shape.heads * shape.head_dim;
  for (const Layout layout : kLayouts) {
    std::vector<T> whole(x.size()), pieces = x, threads(x.size());
    const auto turn = [&](const T* from, T* to, std::size_t first, std::size_t tokens) {
      rope::rotate(Heads<T>::packed(from + first * token, to + first * token, tokens, shape.heads,
                                    shape.head_dim),
                   waves.cos.data() + first * shape.pairs, waves.sin.data() + first * shape.pairs,
                   shape.pairs, static_cast<std::ptrdiff_t>(shape.pairs), layout, false);
    };
    turn(x.data(), whole.data(), 0, shape.tokens);
    for (std::size_t t = 0; t < shape.tokens; ++t) turn(pieces.data(), pieces.data(), t, 1);
    on_two_threads(shape.tokens, [&](std::size_t first, std::size_t some) {
      turn(x.data(), threads.data(), first, some);
    });
    EXPECT_EQ(difference(pieces, whole), "");
    EXPECT_EQ(difference(threads, whole), "");
    EXPECT_EQ(difference(whole, turned(shape, x, waves.cos, waves.sin, layout, false)), "");
  }
}

TYPED_TEST(Rope, apply_is_rotate_by_its_own_tables_for_both_integer_types) {
  using T = TypeParam;
  Generator random(5);
  for (const std::size_t pairs : {1, 7, 8, 9, 31, 32, 33, 64, 1024})
    for (const Layout layout : kLayouts)
      for (const bool inverse : {false, true}) {
        const Angles angles(2 * pairs, 1e6);
        const std::size_t tokens = 5, heads = 3, head_dim = 2 * pairs + 3;
        const auto list = random.positions<std::int64_t>(tokens, -2147483647, 2147483647);
        const std::vector<std::int32_t> list32(list.begin(), list.end());
        std::vector<float> cos(tokens * pairs), sin(cos.size());
        angles.cos_sin(list.data(), tokens, cos.data(), sin.data(),
                       static_cast<std::ptrdiff_t>(pairs));
        const std::vector<T> x = some_lanes<T>(tokens * heads * head_dim, pairs);
        std::vector<T> expected(x.size()), y(x.size()), in_place = x;
        rope::rotate(Heads<T>::packed(x.data(), expected.data(), tokens, heads, head_dim),
                     cos.data(), sin.data(), pairs, static_cast<std::ptrdiff_t>(pairs), layout,
                     inverse);
        rope::apply(angles, Heads<T>::packed(x.data(), y.data(), tokens, heads, head_dim),
                    list.data(), layout, inverse);
        EXPECT_EQ(last_isa(), forced_isa());
        rope::apply(angles,
                    Heads<T>::packed(in_place.data(), in_place.data(), tokens, heads, head_dim),
                    list32.data(), layout, inverse);
        EXPECT_EQ(difference(y, expected), "") << pairs;
        EXPECT_EQ(difference(in_place, expected), "") << pairs;
      }
}

/// Within 3 roundings of each direction, 1.5 u·(|x1| + |x2|) each, and of the table.
TEST(RopeInverse, brings_f32_back) {
  const std::size_t pairs = 45, tokens = 9;
  const Angles angles(2 * pairs, 10000);
  Generator random(2);
  const auto list = random.positions(tokens, -100000, 100000);
  const auto x = random.numbers<float>(tokens * 2 * pairs);
  for (const Layout layout : kLayouts) {
    std::vector<float> y = x;
    const auto heads = Heads<float>::packed(y.data(), y.data(), tokens, 1, 2 * pairs);
    rope::apply(angles, heads, list.data(), layout, false);
    rope::apply(angles, heads, list.data(), layout, true);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i], 8 * 0x1p-24 * 512) << i;
  }
}

TYPED_TEST(Rope, non_finite_lanes_reach_their_own_pair_only) {
  using T = TypeParam;
  const T infinity = from_bits<T>(std::is_same_v<T, float> ? 0x7f800000u
                                  : std::is_same_v<T, F16> ? 0x7c00u
                                                           : 0x7f80u);
  const Shape shape{1, 1, 2 * 37, 37};
  const Waves<float> waves = some_waves(shape.pairs, 1);
  const std::vector<T> clean = some_lanes<T>(shape.head_dim, 4);
  for (const Layout layout : kLayouts)
    for (std::size_t pair = 0; pair < shape.pairs; ++pair) {
      std::vector<T> x = clean, y(x.size()), expected(x.size());
      const std::size_t first = layout == Layout::half ? pair : 2 * pair;
      const std::size_t second = layout == Layout::half ? pair + shape.pairs : 2 * pair + 1;
      x[first] = infinity;
      const auto turn = [&](const std::vector<T>& from, std::vector<T>& to) {
        rope::rotate(Heads<T>::packed(from.data(), to.data(), 1, 1, shape.head_dim),
                     waves.cos.data(), waves.sin.data(), shape.pairs, 37, layout, false);
      };
      turn(x, y);
      turn(clean, expected);
      EXPECT_FALSE(std::isfinite(value(y[first])));
      y[first] = expected[first];
      y[second] = expected[second];
      EXPECT_EQ(difference(y, expected), "");
    }
}

TYPED_TEST(Rope, runs_on_the_isa_that_it_is_given) {
  using T = TypeParam;
  for (const Isa isa : available_isas()) {
    const auto before = isa == Isa::scalar ? Isa::avx2 : Isa::scalar;
    const Angles angles(34, 10000, 1, isa);
    const rope::F32Angles f32_angles(34, 10000, 1, isa);
    std::vector<T> x(34), cos(17), sin(17);
    std::vector<float> f32_cos(17), f32_sin(17);
    const std::int32_t at = 3;
    const auto heads = Heads<T>::packed(x.data(), x.data(), 1, 1, 34);
    core::ran_on = before;
    angles.cos_sin(3, 1, cos.data(), sin.data(), 17);
    EXPECT_EQ(last_isa(), isa);
    core::ran_on = before;
    f32_angles.cos_sin(3, 1, f32_cos.data(), f32_sin.data(), 17);
    EXPECT_EQ(last_isa(), isa);
    core::ran_on = before;
    rope::apply(angles, heads, &at, Layout::half, false);
    EXPECT_EQ(last_isa(), isa);
    core::ran_on = before;
    rope::rotate(heads, f32_cos.data(), f32_sin.data(), 17, 17, Layout::half, false, isa);
    EXPECT_EQ(last_isa(), isa);
  }
}

TEST(RopeParameters, that_are_wrong_are_refused_by_name) {
  const auto refusal = [](std::size_t rotary_dim, double theta, double factor) {
    const auto exact = thrown<std::invalid_argument>([&] { Angles(rotary_dim, theta, factor); });
    EXPECT_EQ(thrown<std::invalid_argument>([&] { rope::F32Angles(rotary_dim, theta, factor); }),
              exact);
    return exact;
  };
  EXPECT_EQ(refusal(7, 10000, 1), "rotary_dim: found 7, allowed is an even number ≥ 2");
  EXPECT_EQ(refusal(0, 10000, 1), "rotary_dim: found 0, allowed is an even number ≥ 2");
  EXPECT_EQ(refusal(8, 0, 1), "base: found 0.000000, allowed is a number > 0");
  EXPECT_EQ(refusal(8, NAN, 1), "base: found nan, allowed is a number > 0");
  EXPECT_EQ(refusal(8, 10000, 0), "factor: found 0.000000, allowed is a number > 0");
  EXPECT_EQ(refusal(8, 10000, -4), "factor: found -4.000000, allowed is a number > 0");
  EXPECT_EQ(refusal(8, 10000, INFINITY), "factor: found inf, allowed is a number > 0");
  for (const double omega : {0.0, -1.0, 1025.0, 0x1p-201, double{NAN}}) {
    const double inv_freq[] = {1, omega};
    EXPECT_NE(thrown<std::domain_error>([&] { Angles(inv_freq, 1); }).find("for pair 1"),
              std::string::npos)
        << omega;
  }
  const double one[] = {1};
  EXPECT_NE(thrown<std::domain_error>([&] { Angles(one, 0x1p201); }).find("amplitude: found"),
            std::string::npos);
}

TEST(RopeDeathTest, misuse_is_asserted_in_debug_builds) {
  const Angles angles(8, 10000);
  float x[64] = {}, y[64], cos[16] = {}, sin[16] = {};
  const std::int64_t limit = std::int64_t{1} << 31, far[] = {limit};
  const std::int32_t at[] = {1, 2};
  const auto heads = Heads<float>::packed(x, y, 2, 2, 8);
  const auto rotate = [&](const Heads<float>& of, std::size_t pairs, std::ptrdiff_t stride) {
    rope::rotate(of, cos, sin, pairs, stride, Layout::half, false);
  };
  const auto apply = [&](const Heads<float>& of, const auto* positions, const Angles& by) {
    rope::apply(by, of, positions, Layout::half, false);
  };
  EXPECT_ASSERTS({ rotate(heads, 5, 5); }, "head_dim");
  EXPECT_ASSERTS({ rotate(heads, 4, 3); }, "stride");
  EXPECT_ASSERTS({ rotate(Heads<float>::packed(x, nullptr, 2, 2, 8), 4, 4); }, "nullptr");
  EXPECT_ASSERTS({ rope::rotate(heads, cos, nullptr, 4, 4, Layout::half, false); }, "nullptr");
  EXPECT_ASSERTS({ rotate(Heads<float>::packed(x, x + 1, 2, 2, 8), 4, 4); }, "are_apart");
  auto narrow = heads;
  narrow.y_head_stride = 7;
  EXPECT_ASSERTS({ rotate(narrow, 4, 4); }, "stride");
  EXPECT_ASSERTS({ apply(heads, static_cast<const int*>(nullptr), angles); }, "nullptr");
  EXPECT_ASSERTS({ apply(Heads<float>::packed(x, y, 1, 2, 8), far, angles); }, "are_positions");
  EXPECT_ASSERTS({ apply(Heads<float>::packed(x, y, 1, 1, 4), at, angles); }, "head_dim");
  std::vector<float> wide(2100);
  EXPECT_ASSERTS(
      {
        apply(Heads<float>::packed(wide.data(), wide.data(), 1, 1, 2100), at, Angles(2050, 10000));
      },
      "kMostPairs");
  EXPECT_ASSERTS({ angles.cos_sin<float>(0, 1, nullptr, sin, 4); }, "nullptr");
  EXPECT_ASSERTS({ angles.cos_sin(limit - 1, 2, cos, sin, 4); }, "are_positions");
  EXPECT_ASSERTS({ angles.cos_sin(far, 1, cos, sin, 4); }, "are_positions");
  EXPECT_ASSERTS({ angles.cos_sin(0, 2, cos, sin, 3); }, "stride");
  EXPECT_ASSERTS({ rope::F32Angles(8, 10000).cos_sin(-limit, 1, cos, sin, 4); }, "are_positions");
}

}  // namespace
}  // namespace posproof::optimized::tests
