#include "optimized/t5.hpp"

#include "optimized/tests/shared.hpp"

namespace posproof::optimized::tests {
namespace {

using t5::Buckets;
using t5::Parameters;

template <class T>
class T5 : public ::testing::Test {};
TYPED_TEST_SUITE(T5, Types);

/// 16 single distances of 32 buckets to 128 split in 16 by 8^(1/16); found by integer powers, for
/// distances that do not overflow: (n/16)^16 ≥ 8^r if and only if n^16 ≥ 8^r·16^16.
std::int64_t causal_bucket(std::int64_t relative) {
  const std::int64_t distance = std::max<std::int64_t>(-relative, 0);
  if (distance < 16) return distance;
  std::int64_t bucket = 16;
  for (int r = 1; r < 16; ++r) {
    // n^16 and 2^(3r + 64) in long double: 64 bits, and equality only where both are powers of two.
    long double power = 1;
    for (int k = 0; k < 16; ++k) power *= static_cast<long double>(distance);
    if (power >= std::ldexp(1.0L, 3 * r + 64)) bucket = 16 + r;
  }
  return bucket;
}

TEST(T5Buckets, are_those_of_integer_powers) {
  const Buckets buckets({32, 128, false});
  EXPECT_EQ(buckets.count(), 32);
  for (std::int64_t relative = -3000; relative <= 100; ++relative)
    ASSERT_EQ(buckets.bucket(relative), causal_bucket(relative)) << relative;
  EXPECT_EQ(buckets.bucket(-(std::int64_t{1} << 32) + 1), 31);
  EXPECT_EQ(buckets.bucket((std::int64_t{1} << 32) - 1), 0);
}

/// Raffel et al. 2020, section 2.1; bucket 8 begins at 8 and bucket 15 at 91 = ⌈8·16^(7/8)⌉.
TEST(T5Buckets, of_both_sides_have_published_borders) {
  const Buckets buckets({32, 128, true});
  const std::int64_t begins[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  for (std::int64_t side : {0, 16})
    for (std::int64_t b = side == 0 ? 0 : 1; b < 16; ++b) {
      const std::int64_t sign = side == 0 ? -1 : 1;
      EXPECT_EQ(buckets.bucket(sign * begins[b]), side + b);
      if (b > 0) {
        EXPECT_EQ(buckets.bucket(sign * (begins[b] - 1)), begins[b] == 1 ? 0 : side + b - 1);
      }
    }
}

TYPED_TEST(T5, fill_copies_the_element_of_the_bucket_for_every_size_and_writes_its_rows_only) {
  using T = TypeParam;
  Generator random(1);
  std::size_t turn = 0;
  for (const bool bidirectional : {true, false})
    for (std::size_t columns = 0; columns <= 70; ++columns)
      for (const std::size_t rows : {1, 2, 3, 9}) {
        ++turn;
        const std::size_t heads = 1 + turn % 3, table_gap = turn % 2;
        const Buckets buckets({32, 128, bidirectional});
        Memory<T> table(Region::of(32, heads, table_gap), kOffsets[turn % 4], 5);
        std::vector<T> elements(32 * heads);
        for (T& each : elements) each = from_bits<T>(random());
        table.set(elements);
        const auto list = random.positions(std::max(rows, columns), -300, 300);
        Positions queries =
            Positions::run(turn % 5 == 0 ? -2147483647 : random.between(-150, 150), rows);
        Positions keys =
            Positions::run(turn % 5 == 0 ? 2147483647 - 80 : random.between(-150, 150), columns);
        if (turn % 7 == 1) keys = Positions::of(list.data(), columns);
        if (turn % 7 == 2) queries = Positions::of(list.data(), rows);
        std::vector<T> expected;
        for (std::size_t head = 0; head < heads; ++head)
          for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j)
              expected.push_back(
                  elements[static_cast<std::size_t>(buckets.bucket(keys.at(j) - queries.at(i))) *
                               heads +
                           head]);
        Memory<T> bias(Region::of(heads, rows, columns, turn % 3, turn % 4),
                       kOffsets[turn / 2 % 4]);
        buckets.fill(queries, keys, table.data(), table.region().row_stride, heads, bias.scores());
        ASSERT_EQ(last_isa(), columns > 0 ? forced_isa() : Isa::scalar);
        ASSERT_EQ(difference(bias.packed(), expected), "") << columns << " " << rows;
        ASSERT_EQ(bias.touched(), "") << columns << " " << rows;
      }
}

TYPED_TEST(T5, is_the_same_in_pieces_on_two_threads_from_lists_and_streamed) {
  using T = TypeParam;
  const std::size_t rows = 353, columns = 4001, heads = 3;
  const Buckets buckets({});
  const auto table = Generator(2).numbers<T>(32 * heads);
  std::vector<T> whole(heads * rows * columns), other(whole.size());
  ASSERT_GE(sizeof(T) * whole.size(), std::size_t{8} << 20);
  buckets.fill(Positions::run(100, rows), Positions::run(-7, columns), table.data(), heads, heads,
               Scores<T>::packed(whole.data(), rows, columns));
  for (std::size_t row = 0; row < rows; row += 7)
    on_two_threads(std::min<std::size_t>(7, rows - row), [&](std::size_t first, std::size_t some) {
      buckets.fill(Positions::run(static_cast<std::int64_t>(100 + row + first), some),
                   Positions::run(-7, columns), table.data(), heads, heads,
                   Scores<T>{other.data() + (row + first) * columns, rows * columns, columns});
    });
  EXPECT_EQ(difference(other, whole), "");
  std::vector<std::int64_t> list;
  for (std::size_t j = 0; j < columns; ++j) list.push_back(static_cast<std::int64_t>(j) - 7);
  std::fill(other.begin(), other.end(), T{});
  buckets.fill(Positions::run(100, rows), Positions::of(list.data(), columns), table.data(), heads,
               heads, Scores<T>::packed(other.data(), rows, columns));
  EXPECT_EQ(difference(other, whole), "");
}

TYPED_TEST(T5, runs_on_the_isa_that_it_is_given) {
  using T = TypeParam;
  for (const Isa isa : available_isas()) {
    T table[32] = {}, scores[40];
    core::ran_on = isa == Isa::scalar ? Isa::avx2 : Isa::scalar;
    Buckets({}, isa).fill(Positions::run(0, 1), Positions::run(0, 40), table, 1, 1,
                          Scores<T>::packed(scores, 1, 40));
    EXPECT_EQ(last_isa(), isa);
  }
}

TEST(T5Parameters, that_are_wrong_are_refused_by_name) {
  const auto refusal = [](const Parameters& parameters) {
    return thrown<std::invalid_argument>([&] { Buckets buckets(parameters); });
  };
  for (const Parameters& wrong :
       {Parameters{2, 128, true}, Parameters{1, 128, false}, Parameters{0, 128, false},
        Parameters{-4, 128, true}, Parameters{32, 8, true}, Parameters{32, 16, false},
        Parameters{32, -1, false}, Parameters{65537, 1 << 20, false}})
    EXPECT_EQ(
        refusal(wrong),
        "num_buckets, max_distance: found " + std::to_string(wrong.num_buckets) + " and " +
            std::to_string(wrong.max_distance) +
            ", allowed are at most 65536 buckets, 2 a side, and a max_distance above half of a "
            "side");
  EXPECT_EQ(refusal({32, 9, true}), "nothing");
  EXPECT_EQ(refusal({4, 2, true}), "nothing");
}

TEST(T5DeathTest, misuse_is_asserted_in_debug_builds) {
  const Buckets buckets({});
  float table[64] = {}, scores[64];
  const std::int64_t limit = std::int64_t{1} << 31, far[] = {0, limit};
  const auto two = Positions::run(0, 2);
  const auto fill = [&](const Positions& queries, const Positions& keys, const float* of,
                        std::ptrdiff_t table_stride,
                        Scores<float> to) { buckets.fill(queries, keys, of, table_stride, 2, to); };
  const auto packed = Scores<float>::packed(scores, 2, 2);
  EXPECT_ASSERTS({ fill(two, two, nullptr, 2, packed); }, "nullptr");
  EXPECT_ASSERTS({ fill(two, two, table, 2, Scores<float>::packed(nullptr, 2, 2)); }, "nullptr");
  EXPECT_ASSERTS({ fill(two, two, table, 1, packed); }, "table_stride");
  EXPECT_ASSERTS({ fill(two, two, table, 2, Scores<float>{scores, 4, 1}); }, "are_rows_apart");
  EXPECT_ASSERTS({ fill(two, two, scores, 2, packed); }, "are_apart");
  EXPECT_ASSERTS({ fill(Positions::of(far, 2), two, table, 2, packed); }, "are_positions");
  EXPECT_ASSERTS({ fill(two, Positions::run(limit - 1, 2), table, 2, packed); }, "are_positions");
}

}  // namespace
}  // namespace posproof::optimized::tests
