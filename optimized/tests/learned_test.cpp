#include "optimized/learned.hpp"

#include "optimized/tests/shared.hpp"

namespace posproof::optimized::tests {
namespace {

using learned::Table;

template <class T>
class Learned : public ::testing::Test {};
TYPED_TEST_SUITE(Learned, Types);

TYPED_TEST(Learned, gathers_bits_and_adds_for_every_width_and_writes_its_rows_only) {
  using T = TypeParam;
  Generator random(1);
  std::size_t turn = 0;
  for (std::size_t width = 0; width <= 141; ++width)
    for (const std::size_t count : {0, 1, 2, 3, 9}) {
      ++turn;
      const std::size_t rows = 7;
      const std::int64_t shift = static_cast<std::int64_t>(turn % 3);
      const auto list = random.positions(count, 0, 6 - shift);
      const std::vector<std::int32_t> list32(list.begin(), list.end());
      Memory<T> table(Region::of(rows, width, turn % 2), kOffsets[turn % 4], 5);
      std::vector<T> elements(rows * width);
      for (T& each : elements) each = from_bits<T>(random());
      table.set(elements);
      const auto of = [&] {
        return Table<T>{table.data(), rows, width, table.region().row_stride, shift};
      };
      const Region region = Region::of(count, width, turn % 3);
      std::vector<T> gathered, sums;
      const std::vector<T> x = random.numbers<T>(count * width),
                           y = random.numbers<T>(rows * width);
      for (std::size_t t = 0; t < count; ++t)
        for (std::size_t c = 0; c < width; ++c) {
          const std::size_t at = static_cast<std::size_t>(list[t] + shift) * width + c;
          gathered.push_back(elements[at]);
          sums.push_back(encoded<T>(static_cast<float>(value(x[t * width + c])) +
                                    static_cast<float>(value(y[at]))));
        }
      Memory<T> out(region, kOffsets[turn % 4]), out32(region, kOffsets[turn / 4 % 4]);
      learned::embed(of(), list.data(), count, out.data(), region.row_stride);
      if (count * width > 0) {
        ASSERT_EQ(last_isa(), forced_isa());
      }
      learned::embed(of(), list32.data(), count, out32.data(), region.row_stride);
      for (Memory<T>* memory : {&out, &out32}) {
        ASSERT_EQ(difference(memory->packed(), gathered), "") << width;
        ASSERT_EQ(memory->touched(), "") << width;
      }
      table.set(y);
      Memory<T> from(Region::of(count, width, turn % 4), kOffsets[turn / 2 % 4], 3);
      Memory<T> in_place(region, kOffsets[turn / 3 % 4]), added(region, kOffsets[turn / 4 % 4]);
      from.set(x);
      in_place.set(x);
      learned::embed_and_add(of(), list.data(), count, from.data(), from.region().row_stride,
                             added.data(), region.row_stride);
      learned::embed_and_add(of(), list32.data(), count, in_place.data(), region.row_stride,
                             in_place.data(), region.row_stride);
      for (Memory<T>* memory : {&added, &in_place}) {
        ASSERT_EQ(difference(memory->packed(), sums), "") << width;
        ASSERT_EQ(memory->touched(), "") << width;
      }
    }
}

TYPED_TEST(Learned, is_the_same_on_two_threads_and_streamed) {
  using T = TypeParam;
  const std::size_t rows = 100, width = 771, count = (std::size_t{8} << 20) / sizeof(T) / width + 2;
  Generator random(3);
  const auto elements = random.numbers<T>(rows * width), x = random.numbers<T>(count * width);
  const auto list = random.positions<std::int32_t>(count, 0, 99);
  const Table<T> table{elements.data(), rows, width, static_cast<std::ptrdiff_t>(width)};
  for (const bool adds : {false, true}) {
    const auto run = [&](std::size_t first, std::size_t some, T* out, std::size_t gap = 0) {
      const std::size_t at = first * width;
      const auto out_stride = static_cast<std::ptrdiff_t>(width + gap);
      if (adds)
        learned::embed_and_add(table, list.data() + first, some, x.data() + at, width,
                               out + static_cast<std::ptrdiff_t>(first) * out_stride, out_stride);
      else
        learned::embed(table, list.data() + first, some,
                       out + static_cast<std::ptrdiff_t>(first) * out_stride, out_stride);
    };
    Memory<T> aligned(Region::of(count, width), 0), odd(Region::of(count, width, 3), 1);
    std::vector<T> pieces(count * width), threads(count * width);
    run(0, count, aligned.data());
    run(0, count, odd.data(), 3);
    for (std::size_t t = 0; t < count; ++t) run(t, 1, pieces.data());
    on_two_threads(count,
                   [&](std::size_t first, std::size_t some) { run(first, some, threads.data()); });
    const std::vector<T> whole = aligned.packed();
    EXPECT_EQ(difference(odd.packed(), whole), "");
    EXPECT_EQ(difference(pieces, whole), "");
    EXPECT_EQ(difference(threads, whole), "");
    EXPECT_EQ(aligned.touched(), "");
    EXPECT_EQ(odd.touched(), "");
  }
}

TEST(LearnedPositions, without_a_row_are_found) {
  const std::int64_t list[] = {0, 4, 5, -1};
  const std::int32_t list32[] = {-1, 0};
  EXPECT_EQ(learned::first_outside(6, 0, list, 4), 3u);
  EXPECT_EQ(learned::first_outside(6, 0, list, 3), 3u);
  EXPECT_EQ(learned::first_outside(5, 0, list, 4), 2u);
  EXPECT_EQ(learned::first_outside(6, 2, list, 4), 1u);
  EXPECT_EQ(learned::first_outside(6, 2, list32, 2), 0u);
  EXPECT_EQ(learned::first_outside(6, -1, list32 + 1, 1), 0u);
  EXPECT_EQ(learned::first_outside(0, 0, list, 0), 0u);
  const std::int64_t far[] = {std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(learned::first_outside(6, 2, far, 1), 0u);
}

TYPED_TEST(Learned, runs_on_the_isa_that_it_is_given) {
  using T = TypeParam;
  for (const Isa isa : available_isas()) {
    T elements[40] = {}, out[40] = {};
    const std::int32_t at = 0;
    const Table<T> table{elements, 1, 40, 40};
    core::ran_on = isa == Isa::scalar ? Isa::avx2 : Isa::scalar;
    learned::embed(table, &at, 1, out, 40, isa);
    EXPECT_EQ(last_isa(), isa);
    core::ran_on = isa == Isa::scalar ? Isa::avx2 : Isa::scalar;
    learned::embed_and_add(table, &at, 1, out, 40, out, 40, isa);
    EXPECT_EQ(last_isa(), isa);
  }
}

TEST(LearnedDeathTest, misuse_is_asserted_in_debug_builds) {
  float elements[64] = {}, out[64];
  const Table<float> table{elements, 4, 8, 8};
  const std::int32_t list[] = {0, 3}, outside[] = {0, 4};
  EXPECT_ASSERTS({ learned::embed(table, outside, 2, out, 8); }, "first_outside");
  EXPECT_ASSERTS({ learned::embed_and_add(table, outside, 2, out, 8, out, 8); }, "first_outside");
  EXPECT_ASSERTS({ learned::embed<float>(table, list, 2, nullptr, 8); }, "nullptr");
  EXPECT_ASSERTS({ learned::embed<float>(table, static_cast<const int*>(nullptr), 2, out, 8); },
                 "nullptr");
  EXPECT_ASSERTS({ learned::embed(Table<float>{nullptr, 4, 8, 8}, list, 2, out, 8); }, "nullptr");
  EXPECT_ASSERTS({ learned::embed(table, list, 2, out, 7); }, "stride");
  EXPECT_ASSERTS({ learned::embed(Table<float>{elements, 4, 8, 7}, list, 2, out, 8); }, "stride");
  EXPECT_ASSERTS({ learned::embed(table, list, 2, elements + 24, 8); }, "are_apart");
  EXPECT_ASSERTS({ learned::embed_and_add<float>(table, list, 2, nullptr, 8, out, 8); }, "nullptr");
  EXPECT_ASSERTS({ learned::embed_and_add(table, list, 2, out + 1, 8, out, 8); }, "are_apart");
}

}  // namespace
}  // namespace posproof::optimized::tests
