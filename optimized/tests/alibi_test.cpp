#include "optimized/alibi.hpp"

#include "optimized/tests/shared.hpp"

namespace posproof::optimized::tests {
namespace {

using alibi::Bias;
using alibi::Form;
using alibi::Parameters;
using alibi::Rule;

constexpr Form kForms[] = {Form::causal_distance, Form::distance, Form::key};

template <class T>
class Alibi : public ::testing::Test {};
TYPED_TEST_SUITE(Alibi, Types);

std::int64_t multiple(Form form, std::int64_t query, std::int64_t key) {
  return form == Form::key ? key : form == Form::distance ? -std::abs(key - query) : key - query;
}

/// Slopes of 8 heads are 2^-1 to 2^-8: their products are exact in double.
template <class T>
std::vector<T> biases(Form form, const Positions& queries, const Positions& keys) {
  std::vector<T> all;
  for (int head = 0; head < 8; ++head)
    for (std::size_t i = 0; i < queries.count; ++i)
      for (std::size_t j = 0; j < keys.count; ++j)
        all.push_back(encoded<T>(
            std::ldexp(static_cast<double>(multiple(form, queries.at(i), keys.at(j))), -head - 1)));
  return all;
}

TYPED_TEST(Alibi, fill_and_add_are_the_formula_for_every_size_and_write_their_rows_only) {
  using T = TypeParam;
  const Bias bias({8});
  Generator random(1);
  std::size_t turn = 0;
  for (std::size_t columns = 0; columns <= 70; ++columns)
    for (const std::size_t rows : {1, 2, 3, 9})
      for (const Form form : kForms) {
        ++turn;
        const auto from = turn % 5 == 0 ? 2147483647 - 80 : random.between(-50, 50);
        const auto query = turn % 5 == 0 ? -2147483647 : random.between(-50, 50);
        const auto list = random.positions(std::max(rows, columns), -3000, 3000);
        Positions queries = Positions::run(query, rows), keys = Positions::run(from, columns);
        if (turn % 7 == 1) keys = Positions::of(list.data(), columns);
        if (turn % 7 == 2) queries = Positions::of(list.data(), rows);
        const std::vector<T> expected = biases<T>(form, queries, keys);
        const Region region = Region::of(8, rows, columns, turn % 3, turn % 4);
        Memory<T> filled(region, kOffsets[turn % 4]), added(region, kOffsets[turn / 4 % 4]);
        bias.fill(form, queries, keys, filled.scores());
        ASSERT_EQ(last_isa(), columns > 0 ? forced_isa() : Isa::scalar);
        ASSERT_EQ(difference(filled.packed(), expected), "") << columns << " " << rows;
        ASSERT_EQ(filled.touched(), "") << columns << " " << rows;

        const std::vector<T> scores = random.numbers<T>(expected.size());
        const std::vector<float> exact = biases<float>(form, queries, keys);
        std::vector<T> sums;
        for (std::size_t i = 0; i < scores.size(); ++i)
          sums.push_back(encoded<T>(static_cast<float>(value(scores[i])) + exact[i]));
        added.set(scores);
        bias.add(form, queries, keys, added.scores());
        ASSERT_EQ(last_isa(), columns > 0 ? forced_isa() : Isa::scalar);
        ASSERT_EQ(difference(added.packed(), sums), "") << columns << " " << rows;
        ASSERT_EQ(added.touched(), "") << columns << " " << rows;
      }
}

/// Slopes that are no powers of two, across the borders of tiles.
TYPED_TEST(Alibi, is_the_value_of_each_element_in_pieces_on_two_threads_and_from_lists) {
  using T = TypeParam;
  const std::size_t rows = 300, columns = 2100;
  for (const Form form : kForms)
    for (const Rule rule : {Rule::press, Rule::geometric}) {
      const Bias bias({3, rule, 8, 1, 2});
      EXPECT_EQ(bias.heads(), 2u);
      const std::int64_t query = 1900, key = -50;
      std::vector<T> whole(2 * rows * columns), pieces(whole.size());
      bias.fill(form, Positions::run(query, rows), Positions::run(key, columns),
                Scores<T>::packed(whole.data(), rows, columns));
      Generator random(4);
      for (int sample = 0; sample < 3000; ++sample) {
        const auto head = static_cast<std::size_t>(random.between(0, 1));
        const std::int64_t i = random.between(0, rows - 1), j = random.between(0, columns - 1);
        ASSERT_EQ(bits(whole[head * rows * columns + static_cast<std::size_t>(i) * columns +
                             static_cast<std::size_t>(j)]),
                  bits(bias.template value<T>(head, multiple(form, query + i, key + j))));
      }
      on_two_threads(rows, [&](std::size_t first, std::size_t some) {
        Scores<T> part{pieces.data() + first * columns, rows * columns, columns};
        bias.fill(form, Positions::run(query + static_cast<std::int64_t>(first), some),
                  Positions::run(key, columns), part);
      });
      EXPECT_EQ(difference(pieces, whole), "");
      std::vector<std::int64_t> list;
      for (std::size_t j = 0; j < columns; ++j) list.push_back(key + static_cast<std::int64_t>(j));
      std::fill(pieces.begin(), pieces.end(), T{});
      bias.fill(form, Positions::run(query, rows), Positions::of(list.data(), columns),
                Scores<T>::packed(pieces.data(), rows, columns));
      EXPECT_EQ(difference(pieces, whole), "");
    }
}

TYPED_TEST(Alibi, streamed_rows_are_those_that_are_not) {
  using T = TypeParam;
  const Bias bias({3});
  const std::size_t rows = 353, columns = 4001;
  std::vector<T> streamed(3 * rows * columns), single(columns);
  bias.fill(Form::distance, Positions::run(0, rows), Positions::run(-7, columns),
            Scores<T>::packed(streamed.data(), rows, columns));
  ASSERT_GE(sizeof(T) * streamed.size(), std::size_t{8} << 20);
  for (std::size_t head = 0; head < 3; ++head) {
    const Bias one({3, Rule::press, 8, head, 1});
    for (std::size_t row = 0; row < rows; ++row) {
      one.fill(Form::distance, Positions::run(static_cast<std::int64_t>(row), 1),
               Positions::run(-7, columns), Scores<T>::packed(single.data(), 1, columns));
      const auto* at = streamed.data() + (head * rows + row) * columns;
      ASSERT_EQ(difference(std::vector<T>(at, at + columns), single), "") << row;
    }
  }
}

/// Slopes that a double cannot tell from 1/4 + 3/8 of the place of 1/4, a midpoint: of each type
/// the first is above it, the second below it, by mpmath with 300 bits.
TYPED_TEST(Alibi, a_product_next_to_a_midpoint_is_rounded_to_its_side) {
  using T = TypeParam;
  constexpr bool kIsF32 = std::is_same_v<T, float>, kIsF16 = std::is_same_v<T, F16>;
  const double above = kIsF32   ? 0x1.fffffbac02a38p+0
                       : kIsF16 ? 0x1.ff759a4515238p+0
                                : 0x1.fbb273ba15a13p+0;
  const double place = std::ldexp(1, 1 - format<T>().digits);
  for (const bool is_above : {true, false}) {
    const Bias bias({1, Rule::press, is_above ? above : std::nextafter(above, 2)});
    T row[64];
    bias.fill(Form::key, Positions::run(0, 1), Positions::run(-31, 64),
              Scores<T>::packed(row, 1, 64));
    for (const int n : {1, 2, 4, 8, 16, 32}) {
      const double expected = n * 0.25 * (1 + (is_above ? 2 : 1) * place);
      EXPECT_EQ(value(row[31 + n]), expected) << n;
      EXPECT_EQ(value(bias.template value<T>(0, n)), expected) << n;
      if (n < 32) {
        EXPECT_EQ(value(row[31 - n]), -expected) << n;
      }
    }
  }
}

/// Press et al. 2022, section 3: 1/2 to 1/256 for 8 heads; 12 heads take every other slope of 16.
TYPED_TEST(Alibi, has_published_slopes) {
  using T = TypeParam;
  const Bias eight({8}), twelve({12});
  for (std::size_t head = 0; head < 8; ++head) {
    EXPECT_EQ(value(eight.template slope<T>(head)), std::ldexp(1, -static_cast<int>(head) - 1));
    EXPECT_EQ(bits(twelve.template slope<T>(head)), bits(eight.template slope<T>(head)));
  }
  const double sqrt_half = 0.7071067811865475244008443621048490392848;
  for (int head = 0; head < 4; ++head)
    EXPECT_EQ(value(twelve.template slope<T>(8 + static_cast<std::size_t>(head))),
              nearest<T>(std::ldexp(sqrt_half, -head)));
}

TYPED_TEST(Alibi, runs_on_the_isa_that_it_is_given) {
  using T = TypeParam;
  for (const Isa isa : available_isas()) {
    const Bias bias({3}, isa);
    T scores[3 * 40] = {};
    for (const Positions& keys : {Positions::run(0, 40)}) {
      core::ran_on = isa == Isa::scalar ? Isa::avx2 : Isa::scalar;
      bias.fill(Form::key, Positions::run(0, 1), keys, Scores<T>::packed(scores, 1, 40));
      EXPECT_EQ(last_isa(), isa);
      core::ran_on = isa == Isa::scalar ? Isa::avx2 : Isa::scalar;
      bias.add(Form::key, Positions::run(0, 1), keys, Scores<T>::packed(scores, 1, 40));
      EXPECT_EQ(last_isa(), isa);
    }
  }
}

TEST(AlibiParameters, that_are_wrong_are_refused_by_name) {
  const auto refusal = [](const Parameters& parameters) {
    return thrown<std::invalid_argument>([&] { Bias bias(parameters); });
  };
  EXPECT_EQ(refusal({0}), "num_heads: found 0, allowed is ≥ 1");
  for (const double bias_max : {0.0, -8.0, 65537.0, double{NAN}, double{INFINITY}})
    EXPECT_EQ(refusal({8, Rule::press, bias_max}),
              "bias_max: found " + std::to_string(bias_max) + ", allowed is above 0 to 65536");
  EXPECT_EQ(refusal({8, Rule::press, 8, 8}),
            "head_offset, local_heads: found 8 and 0, allowed are num_heads = 8 in all");
  EXPECT_EQ(refusal({8, Rule::press, 8, 5, 4}),
            "head_offset, local_heads: found 5 and 4, allowed are num_heads = 8 in all");
  EXPECT_EQ(refusal({8, Rule::press, 8, 5, ~std::size_t{0}}).substr(0, 38),
            "head_offset, local_heads: found 5 and ");
}

TEST(AlibiDeathTest, misuse_is_asserted_in_debug_builds) {
  const Bias bias({2});
  float scores[64];
  const std::int64_t limit = std::int64_t{1} << 31, far[] = {0, limit};
  const auto of = [&](const Positions& queries, const Positions& keys, Scores<float> to) {
    bias.fill(Form::distance, queries, keys, to);
    bias.add(Form::distance, queries, keys, to);
  };
  const auto two = Positions::run(0, 2);
  EXPECT_ASSERTS({ of(two, two, Scores<float>::packed(nullptr, 2, 2)); }, "nullptr");
  EXPECT_ASSERTS({ of(two, two, Scores<float>{scores, 4, 1}); }, "are_rows_apart");
  EXPECT_ASSERTS({ of(two, two, Scores<float>{scores, 3, 2}); }, "are_rows_apart");
  EXPECT_ASSERTS({ of(two, two, Scores<float>{scores, 2, 3}); }, "are_rows_apart");
  EXPECT_ASSERTS({ of(two, Positions::of(far, 2), Scores<float>::packed(scores, 2, 2)); },
                 "are_positions");
  EXPECT_ASSERTS({ of(Positions::run(-limit, 2), two, Scores<float>::packed(scores, 2, 2)); },
                 "are_positions");
}

}  // namespace
}  // namespace posproof::optimized::tests
