#include "optimized/sinusoidal.hpp"

#include "optimized/tests/shared.hpp"

namespace posproof::optimized::tests {
namespace {

using sinusoidal::Denominator;
using sinusoidal::Layout;
using sinusoidal::Parameters;
using sinusoidal::Table;

constexpr Layout kLayouts[] = {Layout::interleaved, Layout::concat, Layout::concat_cos_first};

template <class T>
class Sinusoidal : public ::testing::Test {};
TYPED_TEST_SUITE(Sinusoidal, Types);

template <class T>
std::vector<T> whole(const Table& table, std::size_t d_model, std::int64_t first,
                     std::size_t count) {
  std::vector<T> rows(count * d_model);
  table.range(first, count, rows.data(), static_cast<std::ptrdiff_t>(d_model));
  return rows;
}

/// Widths of 1 to 70 pairs and around 128 and 256, row counts around none, two and a block of rows.
TYPED_TEST(Sinusoidal, has_the_bits_of_plain_code_for_every_width_and_writes_its_rows_only) {
  using T = TypeParam;
  std::vector<std::size_t> widths;
  for (std::size_t width = 1; width <= 141; ++width) widths.push_back(width);
  for (std::size_t width : {254, 256, 257, 258, 510, 512, 514, 528, 1026}) widths.push_back(width);
  for (const std::size_t d_model : widths)
    for (const Layout layout : kLayouts) {
      const Parameters parameters{d_model, 10000, layout, Denominator::half, true};
      const Table table(parameters), plain(parameters, Isa::scalar);
      const std::int64_t first = -4;
      const std::vector<T> expected = whole<T>(plain, d_model, first, 9);
      std::size_t turn = d_model;
      for (const std::size_t rows : {0, 1, 2, 3, 8, 9}) {
        Memory<T> memory(Region::of(rows, d_model, turn % 3), kOffsets[turn % 4]);
        ++turn;
        const std::vector<T> some(expected.begin(),
                                  expected.begin() + static_cast<std::ptrdiff_t>(rows * d_model));
        table.range(first, rows, memory.data(), memory.region().row_stride);
        if (rows > 0) {
          ASSERT_EQ(last_isa(), forced_isa());
        }
        ASSERT_EQ(difference(memory.packed(), some), "") << d_model << " " << rows;
        ASSERT_EQ(memory.touched(), "") << d_model << " " << rows;
        const std::int32_t list[] = {-4, -3, -2, -1, 0, 1, 2, 3, 4};
        Memory<T> listed(Region::of(rows, d_model, turn % 2), kOffsets[turn % 4]);
        table.list(list, rows, listed.data(), listed.region().row_stride);
        if (rows > 0) {
          ASSERT_EQ(last_isa(), forced_isa());
        }
        ASSERT_EQ(difference(listed.packed(), some), "") << d_model << " " << rows;
        ASSERT_EQ(listed.touched(), "") << d_model << " " << rows;
      }
    }
}

TYPED_TEST(Sinusoidal, is_the_same_in_pieces_on_two_threads_and_from_lists) {
  using T = TypeParam;
  const std::size_t d_model = 70, count = 777;
  for (const std::int64_t first : {std::int64_t{-300}, (std::int64_t{1} << 24) - 400,
                                   (std::int64_t{1} << 31) - 777, -(std::int64_t{1} << 31) + 1})
    for (const Layout layout : kLayouts) {
      const Table table({d_model, 10000, layout});
      const std::vector<T> expected = whole<T>(table, d_model, first, count);
      for (const std::size_t piece : {1, 2, 7, 255, 256, 257, 600}) {
        std::vector<T> rows(expected.size());
        for (std::size_t row = 0; row < count; row += piece)
          table.range(first + static_cast<std::int64_t>(row), std::min(piece, count - row),
                      rows.data() + row * d_model, d_model);
        ASSERT_EQ(difference(rows, expected), "") << piece;
      }
      std::vector<T> rows(expected.size());
      on_two_threads(count, [&](std::size_t row, std::size_t some) {
        table.range(first + static_cast<std::int64_t>(row), some, rows.data() + row * d_model,
                    d_model);
      });
      EXPECT_EQ(difference(rows, expected), "");
      std::vector<std::int64_t> list;
      std::vector<std::int32_t> list32;
      for (std::size_t row = 0; row < count; ++row) {
        list.push_back(first + static_cast<std::int64_t>(row));
        list32.push_back(static_cast<std::int32_t>(list.back()));
      }
      table.list(list.data(), count, rows.data(), d_model);
      EXPECT_EQ(difference(rows, expected), "");
      std::fill(rows.begin(), rows.end(), T{});
      table.list(list32.data(), count, rows.data(), d_model);
      EXPECT_EQ(difference(rows, expected), "");
    }
}

/// 8 MiB on whole cache lines go past the cache; one element further they do not.
TYPED_TEST(Sinusoidal, streamed_rows_are_those_that_are_not) {
  using T = TypeParam;
  const std::size_t d_model = 512, count = (std::size_t{8} << 20) / d_model / sizeof(T) + 3;
  for (const Layout layout : kLayouts) {
    const Table table({d_model, 10000, layout});
    Memory<T> streamed(Region::of(count, d_model), 0), other(Region::of(count, d_model), 1);
    table.range(-99, count, streamed.data(), d_model);
    table.range(-99, count, other.data(), d_model);
    EXPECT_EQ(difference(streamed.packed(), other.packed()), "");
    EXPECT_EQ(streamed.touched(), "");
  }
}

TYPED_TEST(Sinusoidal, rows_may_lie_in_reverse_order) {
  using T = TypeParam;
  const Table table({22});
  const std::vector<T> expected = whole<T>(table, 22, -3, 9);
  std::vector<T> rows(expected.size());
  table.range(-3, 9, rows.data() + 8 * 22, -22);
  for (std::size_t row = 0; row < 9; ++row)
    for (std::size_t c = 0; c < 22; ++c)
      EXPECT_EQ(bits(rows[(8 - row) * 22 + c]), bits(expected[row * 22 + c]));
}

/// Sines and cosines from bc and mpmath, which agree in 40 digits.
TYPED_TEST(Sinusoidal, has_published_values) {
  using T = TypeParam;
  const Table table({2});
  const struct {
    std::int64_t position;
    double sin, cos;
  } kRows[] = {
      {0, 0.0, 1.0},
      {1, 0.8414709848078965066525023216302989996226, 0.5403023058681397174009366074429766037323},
      {-1, -0.8414709848078965066525023216302989996226, 0.5403023058681397174009366074429766037323},
      {2147483647, -0.7249165551445563905482932963397950399,
       -0.6888366918779438346797582230379290319},
      {16777217, 0.1058325673475436397319148982968547169014,
       0.9943839639136522397687547919474496167406},
      {-123456789, -0.9901147518020354442291637380068317371,
       0.1402596815339096299506554932787677397}};
  for (const auto& row : kRows) {
    T range[2], list[2];
    table.range(row.position, 1, range, 2);
    table.list(&row.position, 1, list, 2);
    for (const T* found : {range, list}) {
      EXPECT_EQ(value(found[0]), nearest<T>(row.sin)) << row.position;
      EXPECT_EQ(value(found[1]), nearest<T>(row.cos)) << row.position;
    }
  }
}

TYPED_TEST(Sinusoidal, runs_on_the_isa_that_it_is_given) {
  for (const Isa isa : available_isas()) {
    const Table table({34}, isa);
    TypeParam rows[3 * 34];
    const std::int32_t list[] = {5, -7, 1};
    core::ran_on = isa == Isa::scalar ? Isa::avx2 : Isa::scalar;
    table.range(1, 3, rows, 34);
    EXPECT_EQ(last_isa(), isa);
    core::ran_on = isa == Isa::scalar ? Isa::avx2 : Isa::scalar;
    table.list(list, 3, rows, 34);
    EXPECT_EQ(last_isa(), isa);
  }
  EXPECT_EQ(default_isa(), forced_isa());
}

TEST(SinusoidalParameters, that_are_wrong_are_refused_by_name) {
  const auto refusal = [](const Parameters& parameters) {
    return thrown<std::invalid_argument>([&] { Table table(parameters); });
  };
  EXPECT_EQ(refusal({7}),
            "d_model: found 7, allowed is an even number ≥ 2, or an odd one with zero_pad");
  EXPECT_EQ(refusal({0}),
            "d_model: found 0, allowed is an even number ≥ 2, or an odd one with zero_pad");
  EXPECT_EQ(refusal({0, 10000, Layout::concat, Denominator::half, true}),
            "d_model: found 0, allowed is an even number ≥ 2, or an odd one with zero_pad");
  EXPECT_EQ(refusal({8, 0}), "base: found 0.000000, allowed is a number > 0");
  EXPECT_EQ(refusal({8, -1}), "base: found -1.000000, allowed is a number > 0");
  EXPECT_EQ(refusal({8, NAN}), "base: found nan, allowed is a number > 0");
  EXPECT_EQ(refusal({8, INFINITY}), "base: found inf, allowed is a number > 0");
  EXPECT_EQ(refusal({7, 10000, Layout::concat, Denominator::half, true}), "nothing");
  const auto outside = [](const Parameters& parameters) {
    return thrown<std::domain_error>([&] { Table table(parameters); });
  };
  Parameters scaled{8};
  for (const double scale : {0x1p201, 0x1p-201, double{INFINITY}, double{NAN}}) {
    scaled.scale = scale;
    EXPECT_NE(outside(scaled).find("amplitude: found "), std::string::npos) << scale;
  }
  EXPECT_NE(outside({8, 1e200}).find("inv_freq: found "), std::string::npos);
  EXPECT_NE(outside({8, 1e-20}).find("for pair 1, allowed is 2^-200 to 2^10"), std::string::npos);
}

TEST(SinusoidalDeathTest, misuse_is_asserted_in_debug_builds) {
  const Table table({8});
  float rows[64];
  const std::int64_t limit = std::int64_t{1} << 31, list[] = {0, -limit};
  EXPECT_ASSERTS({ table.range<float>(0, 1, nullptr, 8); }, "table != nullptr");
  EXPECT_ASSERTS({ table.range(0, 2, rows, 7); }, "stride");
  EXPECT_ASSERTS({ table.list(list, 2, rows, 7); }, "stride");
  EXPECT_ASSERTS({ table.range(-limit, 1, rows, 8); }, "are_positions");
  EXPECT_ASSERTS({ table.range(limit - 1, 2, rows, 8); }, "are_positions");
  EXPECT_ASSERTS({ table.list(list, 2, rows, 8); }, "are_positions");
  EXPECT_ASSERTS({ table.list<float>(static_cast<const int*>(nullptr), 1, rows, 8); },
                 "positions != nullptr");
}

}  // namespace
}  // namespace posproof::optimized::tests
