#include "optimized/shaw.hpp"

#include "optimized/tests/shared.hpp"

namespace posproof::optimized::tests {
namespace {

using shaw::KeyLogits;
using shaw::Sign;

constexpr Sign kSigns[] = {Sign::key_minus_query, Sign::query_minus_key};

std::size_t clipped(Sign sign, std::int64_t query, std::int64_t key, std::size_t max_distance) {
  const auto k = static_cast<std::int64_t>(max_distance);
  const std::int64_t relative = sign == Sign::key_minus_query ? key - query : query - key;
  return static_cast<std::size_t>(std::max(-k, std::min(k, relative)) + k);
}

std::vector<float> logits_of(const std::vector<float>& q, const std::vector<float>& keys_table,
                             std::size_t k, std::size_t width, Sign sign, std::size_t heads,
                             const Positions& queries, const Positions& keys) {
  std::vector<float> all;
  for (std::size_t row = 0; row < heads * queries.count; ++row)
    for (std::size_t j = 0; j < keys.count; ++j) {
      const std::size_t at = clipped(sign, queries.at(row % queries.count), keys.at(j), k) * width;
      float sum = 0;
      for (std::size_t i = 0; i < width; ++i)
        sum = std::fma(q[row * width + i], keys_table[at + i], sum);
      all.push_back(sum);
    }
  return all;
}

/// Of sizes: 2k + 1 rows on either side of the 512 that are done at once.
TEST(ShawKeyLogits, are_chains_of_fused_multiply_adds_for_every_size_and_write_their_rows_only) {
  Generator random(1);
  std::size_t turn = 0;
  for (const std::size_t k : {0, 1, 5, 8, 16, 255, 256})
    for (std::size_t columns = 0; columns <= 70; columns += k < 100 ? 1 : 7)
      for (const std::size_t rows : {1, 2, 7, 8, 9, 17}) {
        ++turn;
        const Sign sign = kSigns[turn % 2];
        const std::size_t width = turn % 11 == 0 ? 64 : turn % 9, heads = 1 + turn % 2;
        const auto table = random.numbers<float>((2 * k + 1) * width);
        const KeyLogits kernel(table.data(), k, width, sign);
        const auto list = random.positions(std::max(rows, columns), -40, 40);
        Positions queries =
            Positions::run(turn % 5 == 0 ? -2147483647 : random.between(-60, 60), rows);
        Positions keys =
            Positions::run(turn % 5 == 0 ? 2147483647 - 80 : random.between(-60, 60), columns);
        if (turn % 7 == 1) keys = Positions::of(list.data(), columns);
        if (turn % 7 == 2) queries = Positions::of(list.data(), rows);
        const auto q = random.numbers<float>(heads * rows * width);
        Memory<float> from(Region::of(heads, rows, width, turn % 2, turn % 3), kOffsets[turn % 4],
                           5);
        from.set(q);
        Memory<float> logits(Region::of(heads, rows, columns, turn % 3, turn % 4),
                             kOffsets[turn / 2 % 4]);
        kernel(from.const_scores(), heads, queries, keys, logits.scores());
        // More rows of the table than are done at once, and none at all, are plain code's.
        ASSERT_EQ(last_isa(), columns > 0 && k < 256 ? forced_isa() : Isa::scalar);
        ASSERT_EQ(
            difference(logits.packed(), logits_of(q, table, k, width, sign, heads, queries, keys)),
            "")
            << k << " " << columns << " " << rows << " " << width;
        ASSERT_EQ(logits.touched(), "");
      }
}

TEST(ShawKeyLogits, are_the_same_in_pieces_on_two_threads_from_lists_and_streamed) {
  const std::size_t rows = 531, columns = 4099, width = 9, k = 16;
  Generator random(2);
  const auto table = random.numbers<float>((2 * k + 1) * width),
             q = random.numbers<float>(rows * width);
  std::vector<std::int64_t> list;
  for (std::size_t j = 0; j < columns; ++j) list.push_back(static_cast<std::int64_t>(j));
  for (const Sign sign : kSigns) {
    const KeyLogits kernel(table.data(), k, width, sign);
    std::vector<float> whole(rows * columns), other(whole.size());
    ASSERT_GE(whole.size() * sizeof(float), std::size_t{8} << 20);
    const auto run = [&](std::size_t first, std::size_t some, const Positions& keys, float* to) {
      kernel(Scores<const float>::packed(q.data() + first * width, some, width), 1,
             Positions::run(static_cast<std::int64_t>(1800 + first), some), keys,
             Scores<float>::packed(to + first * columns, some, columns));
    };
    run(0, rows, Positions::run(0, columns), whole.data());
    for (std::size_t row = 0; row < rows; row += 13)
      on_two_threads(std::min<std::size_t>(13, rows - row),
                     [&](std::size_t first, std::size_t some) {
                       run(row + first, some, Positions::run(0, columns), other.data());
                     });
    EXPECT_EQ(difference(other, whole), "");
    run(0, rows, Positions::of(list.data(), columns), other.data());
    EXPECT_EQ(difference(other, whole), "");
  }
}

/// Rows that no pair of positions takes may hold anything.
TEST(Shaw, looks_at_no_row_of_a_table_that_no_pair_takes) {
  const std::size_t k = 20, width = 19, rows = 3, columns = 5;
  Generator random(3);
  auto table = random.numbers<float>((2 * k + 1) * width);
  const auto q = random.numbers<float>(rows * width),
             weights = random.numbers<float>(rows * columns);
  const std::int64_t list[] = {2, 0, 1, 4, 3};
  const auto results = [&](Sign sign, const Positions& keys) {
    std::vector<float> logits(rows * columns), out(rows * width);
    const auto queries = Positions::run(0, rows);
    KeyLogits(table.data(), k, width, sign)(Scores<const float>::packed(q.data(), rows, width), 1,
                                            queries, keys,
                                            Scores<float>::packed(logits.data(), rows, columns));
    shaw::value_term(table.data(), k, width, sign,
                     Scores<const float>::packed(weights.data(), rows, columns), 1, queries, keys,
                     Scores<float>::packed(out.data(), rows, width));
    logits.insert(logits.end(), out.begin(), out.end());
    return logits;
  };
  for (const Sign sign : kSigns)
    for (const Positions& keys : {Positions::run(0, columns), Positions::of(list, columns)}) {
      table = Generator(3).numbers<float>(table.size());
      const auto clean = results(sign, keys);
      for (std::size_t row = 0; row < 2 * k + 1; ++row)
        if (row < k - 4 || row > k + 4) std::fill_n(&table[row * width], width, NAN);
      EXPECT_EQ(difference(results(sign, keys), clean), "");
    }
}

/// Along lists the terms are added in their order; along runs within the bound of the header.
TEST(ShawValueTerm, is_the_sum_for_every_size_and_writes_its_rows_only) {
  Generator random(4);
  std::size_t turn = 0;
  for (const std::size_t k : {0, 1, 5, 16, 40})
    for (std::size_t width = 0; width <= 70; ++width)
      for (const std::size_t rows : {1, 3, 9}) {
        ++turn;
        const Sign sign = kSigns[turn % 2];
        const std::size_t heads = 1 + turn % 2, columns = turn % 83;
        const auto values = random.numbers<float>((2 * k + 1) * width);
        const auto weights = random.numbers<float>(heads * rows * columns);
        const auto list = random.positions(std::max(rows, columns), -40, 40);
        const bool is_list = turn % 3 == 0;
        const Positions queries =
            turn % 4 == 0
                ? Positions::of(list.data(), rows)
                : Positions::run(turn % 5 == 0 ? -2147483647 : random.between(-60, 60), rows);
        const Positions keys =
            is_list ? Positions::of(list.data(), columns)
                    : Positions::run(turn % 5 == 0 ? 2147483647 - 90 : random.between(-60, 60),
                                     columns);
        Memory<float> from(Region::of(heads, rows, columns, turn % 2, turn % 3), kOffsets[turn % 4],
                           5);
        from.set(weights);
        Memory<float> table(Region::of(2 * k + 1, width), kOffsets[turn / 3 % 4], 6);
        table.set(values);
        Memory<float> out(Region::of(heads, rows, width, turn % 3, turn % 4),
                          kOffsets[turn / 2 % 4]);
        shaw::value_term(table.data(), k, width, sign, from.const_scores(), heads, queries, keys,
                         out.scores());
        ASSERT_EQ(last_isa(), columns > 0 ? forced_isa() : Isa::scalar);
        ASSERT_EQ(out.touched(), "");
        const auto found = out.packed();
        for (std::size_t row = 0; row < heads * rows; ++row)
          for (std::size_t lane = 0; lane < width; ++lane) {
            double exact = 0, magnitude = 0;
            float chain = 0;
            for (std::size_t j = 0; j < columns; ++j) {
              const float w = weights[row * columns + j];
              const float a =
                  values[clipped(sign, queries.at(row % rows), keys.at(j), k) * width + lane];
              chain = std::fma(w, a, chain);
              exact += double{w} * double{a};
              magnitude += std::fabs(double{w} * double{a});
            }
            const float got = found[row * width + lane];
            if (is_list) {
              ASSERT_EQ(bits(got), bits(chain)) << k << " " << width << " " << columns;
            }
            ASSERT_LE(std::fabs(got - exact), static_cast<double>(columns) * 0x1.01p-24 * magnitude)
                << k << " " << width << " " << columns;
          }
      }
}

TEST(ShawValueTerm, is_the_same_as_plain_code_in_pieces_and_on_two_threads) {
  const std::size_t rows = 90, columns = 1000, width = 75, k = 16;
  Generator random(5);
  const auto values = random.numbers<float>((2 * k + 1) * width);
  const auto weights = random.numbers<float>(rows * columns);
  for (const Sign sign : kSigns) {
    const auto run = [&](std::size_t first, std::size_t some, float* to, Isa isa) {
      shaw::value_term(values.data(), k, width, sign,
                       Scores<const float>::packed(weights.data() + first * columns, some, columns),
                       1, Positions::run(static_cast<std::int64_t>(470 + first), some),
                       Positions::run(0, columns),
                       Scores<float>::packed(to + first * width, some, width), isa);
    };
    std::vector<float> plain(rows * width), whole(plain.size()), other(plain.size());
    run(0, rows, plain.data(), Isa::scalar);
    run(0, rows, whole.data(), default_isa());
    EXPECT_EQ(last_isa(), forced_isa());
    EXPECT_EQ(difference(whole, plain), "");
    on_two_threads(rows, [&](std::size_t first, std::size_t some) {
      for (std::size_t row = first; row < first + some; ++row)
        run(row, 1, other.data(), default_isa());
    });
    EXPECT_EQ(difference(other, whole), "");
  }
}

TEST(Shaw, runs_on_the_isa_that_it_is_given) {
  for (const Isa isa : available_isas()) {
    const auto table = Generator(1).numbers<float>(5 * 40);
    float x[2 * 40] = {}, out[2 * 40];
    const auto two = Positions::run(0, 2);
    const auto keys = Positions::run(0, 40);
    core::ran_on = isa == Isa::scalar ? Isa::avx2 : Isa::scalar;
    KeyLogits(table.data(), 2, 40, Sign::key_minus_query, isa)(
        Scores<const float>::packed(x, 2, 40), 1, two, keys, Scores<float>::packed(out, 2, 40));
    EXPECT_EQ(last_isa(), isa);
    core::ran_on = isa == Isa::scalar ? Isa::avx2 : Isa::scalar;
    shaw::value_term(table.data(), 2, 40, Sign::key_minus_query,
                     Scores<const float>::packed(x, 2, 40), 1, two, keys,
                     Scores<float>::packed(out, 2, 40), isa);
    EXPECT_EQ(last_isa(), isa);
  }
}

TEST(ShawDeathTest, misuse_is_asserted_in_debug_builds) {
  float table[5 * 8] = {}, q[16] = {}, to[16];
  const std::int64_t limit = std::int64_t{1} << 31, far[] = {0, limit};
  const KeyLogits kernel(table, 2, 8, Sign::key_minus_query);
  const auto two = Positions::run(0, 2);
  const auto from = Scores<const float>::packed(q, 2, 8);
  const auto logits = Scores<float>::packed(to, 2, 2);
  EXPECT_ASSERTS({ KeyLogits(nullptr, 2, 8, Sign::key_minus_query); }, "nullptr");
  EXPECT_ASSERTS({ kernel(from, 1, two, two, Scores<float>::packed(nullptr, 2, 2)); }, "nullptr");
  EXPECT_ASSERTS({ kernel(Scores<const float>::packed(nullptr, 2, 8), 1, two, two, logits); },
                 "nullptr");
  EXPECT_ASSERTS({ kernel(from, 1, two, two, Scores<float>{to, 4, 1}); }, "are_rows_apart");
  EXPECT_ASSERTS({ kernel(from, 1, two, two, Scores<float>::packed(q, 2, 2)); }, "are_apart");
  EXPECT_ASSERTS({ kernel(from, 1, two, Positions::of(far, 2), logits); }, "are_positions");
  const auto term = [&](const float* values, Scores<const float> weights, const Positions& queries,
                        Scores<float> out) {
    shaw::value_term(values, 2, 8, Sign::key_minus_query, weights, 1, queries, two, out);
  };
  const auto weights = Scores<const float>::packed(q, 2, 2);
  const auto out = Scores<float>::packed(to, 2, 8);
  EXPECT_ASSERTS({ term(nullptr, weights, two, out); }, "nullptr");
  EXPECT_ASSERTS({ term(table, Scores<const float>::packed(nullptr, 2, 2), two, out); }, "nullptr");
  EXPECT_ASSERTS({ term(table, weights, two, Scores<float>{to, 16, 7}); }, "are_rows_apart");
  EXPECT_ASSERTS({ term(table, weights, two, Scores<float>::packed(q, 2, 8)); }, "are_apart");
  EXPECT_ASSERTS({ term(table, weights, two, Scores<float>::packed(table, 2, 8)); }, "are_apart");
  EXPECT_ASSERTS({ term(table, weights, Positions::run(-limit, 2), out); }, "are_positions");
}

}  // namespace
}  // namespace posproof::optimized::tests
