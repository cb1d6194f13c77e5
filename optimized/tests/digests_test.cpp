#include <cinttypes>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

#include "optimized/alibi.hpp"
#include "optimized/learned.hpp"
#include "optimized/rope.hpp"
#include "optimized/shaw.hpp"
#include "optimized/sinusoidal.hpp"
#include "optimized/t5.hpp"
#include "optimized/tests/shared.hpp"

/// One digest of the bits of each kernel, variant and type. digests.txt has those of every ISA,
/// compiler and alignment: POSPROOF_WRITE_DIGESTS=1 makes it anew, to be read and committed.
namespace posproof::optimized::tests {
namespace {

using Digests = std::map<std::string, std::uint64_t>;

constexpr std::int64_t kLimit = std::int64_t{1} << 31;

/// Around 0, where floats cease to hold every integer, and at both ends.
constexpr std::int64_t kFirsts[] = {-17, (std::int64_t{1} << 24) - 30, kLimit - 601, -kLimit + 1};

std::vector<std::int64_t> list_of_positions(std::size_t count) {
  Generator random(77);
  std::vector<std::int64_t> list = random.positions(count, -kLimit + 1, kLimit - 1);
  const std::int64_t some[] = {0, -1, 1, 16777216, 16777217, kLimit - 1, -kLimit + 1};
  std::copy_n(some, std::min<std::size_t>(count, 7), list.begin());
  for (std::size_t i = 7; i + 1 < count; i += 2) list[i] %= 5000;
  return list;
}

constexpr const char* name_of(rope::Layout layout) {
  return layout == rope::Layout::half ? "half" : "interleaved";
}

template <class T>
void sinusoidal_digests(const std::string& type, Digests& digests) {
  using sinusoidal::Denominator;
  using sinusoidal::Layout;
  for (const auto& [name, layout] :
       std::map<std::string, Layout>{{"interleaved", Layout::interleaved},
                                     {"concat", Layout::concat},
                                     {"concat_cos_first", Layout::concat_cos_first}}) {
    Digest range, list;
    for (const auto& [d_model, base, denominator, scale] :
         std::initializer_list<std::tuple<std::size_t, double, Denominator, double>>{
             {2, 10000, Denominator::half, 1},
             {33, 10000, Denominator::half, 1},
             {64, 1e6, Denominator::half_minus_one, 1},
             {130, 1e7, Denominator::half, -0.75},
             {514, 10000, Denominator::half_minus_one, 0x1p-13},
             {70, 2, Denominator::half, 0}}) {
      const sinusoidal::Table table({d_model, base, layout, denominator, true, scale});
      std::vector<T> rows(600 * d_model);
      const auto stride = static_cast<std::ptrdiff_t>(d_model);
      for (const std::int64_t first : kFirsts) {
        const std::size_t count = d_model < 100 ? 600 : 75;
        table.range(first, count, rows.data(), stride);
        range.add(rows.data(), count * d_model);
      }
      const auto positions = list_of_positions(60);
      const std::vector<std::int32_t> positions32(positions.begin(), positions.end());
      table.list(positions.data(), 60, rows.data(), stride);
      list.add(rows.data(), 60 * d_model);
      table.list(positions32.data(), 60, rows.data(), stride);
      list.add(rows.data(), 60 * d_model);
    }
    const std::size_t d_model = 256, count = (std::size_t{8} << 20) / sizeof(T) / d_model + 1;
    const sinusoidal::Table table({d_model, 10000, layout});
    Memory<T> streamed(Region::of(count, d_model), 0);
    table.range(-1000, count, streamed.data(), d_model);
    Digest large;
    large.add(streamed.data(), count * d_model);
    digests["sinusoidal.range." + name + "." + type] = range.value();
    digests["sinusoidal.list." + name + "." + type] = list.value();
    digests["sinusoidal.streamed." + name + "." + type] = large.value();
  }
}

template <class T>
void rope_digests(const std::string& type, Digests& digests) {
  Digest range, list, large;
  for (const std::size_t pairs : {1, 13, 64, 75, 257}) {
    const rope::Angles angles(2 * pairs, pairs == 64 ? 500000 : 10000, pairs == 13 ? 4 : 1);
    const std::size_t count = pairs < 100 ? 600 : 75;
    std::vector<T> cos(count * pairs), sin(cos.size());
    const auto stride = static_cast<std::ptrdiff_t>(pairs);
    for (const std::int64_t first : kFirsts) {
      angles.cos_sin(first, count, cos.data(), sin.data(), stride);
      range.add(cos.data(), cos.size());
      range.add(sin.data(), sin.size());
    }
    const auto positions = list_of_positions(75);
    const std::vector<std::int32_t> positions32(positions.begin(), positions.end());
    angles.cos_sin(positions.data(), 75, cos.data(), sin.data(), stride);
    list.add(cos.data(), 75 * pairs);
    angles.cos_sin(positions32.data(), 75, cos.data(), sin.data(), stride);
    list.add(sin.data(), 75 * pairs);
  }
  {
    const double inv_freq[] = {1, 0.25, 0x1.8p-9, 1.0 / 3, 1000};
    const rope::Angles angles(inv_freq, 1.25);
    std::vector<T> cos(5 * 100), sin(cos.size());
    angles.cos_sin(1999900, 100, cos.data(), sin.data(), 5);
    range.add(cos.data(), cos.size());
    range.add(sin.data(), sin.size());
    const std::size_t pairs = 128, count = (std::size_t{4} << 20) / sizeof(T) / pairs + 1;
    const rope::Angles many(2 * pairs, 1e6);
    Memory<T> far_cos(Region::of(count, pairs), 0), far_sin(Region::of(count, pairs), 0);
    many.cos_sin(1 << 20, count, far_cos.data(), far_sin.data(), pairs);
    large.add(far_cos.data(), count * pairs);
    large.add(far_sin.data(), count * pairs);
  }
  digests["rope.cos_sin.range." + type] = range.value();
  digests["rope.cos_sin.list." + type] = list.value();
  digests["rope.cos_sin.streamed." + type] = large.value();

  for (const rope::Layout layout : {rope::Layout::half, rope::Layout::interleaved})
    for (const bool inverse : {false, true}) {
      Digest rotate, apply;
      Generator random(6);
      for (const auto& [tokens, heads, head_dim, pairs] :
           std::initializer_list<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>>{
               {9, 1, 2, 1},
               {9, 3, 31, 15},
               {5, 2, 80, 40},
               {5, 2, 96, 32},
               {3, 2, 300, 137},
               {140, 32, 256, 128}}) {
        const rope::Angles angles(2 * pairs, 10000);
        const auto positions = list_of_positions(tokens);
        const std::vector<std::int32_t> positions32(positions.begin(), positions.end());
        std::vector<float> cos(tokens * pairs), sin(cos.size());
        const auto stride = static_cast<std::ptrdiff_t>(pairs);
        angles.cos_sin(positions.data(), tokens, cos.data(), sin.data(), stride);
        const auto x = random.numbers<T>(tokens * heads * head_dim);
        std::vector<T> y(x.size());
        const auto packed = rope::Heads<T>::packed(x.data(), y.data(), tokens, heads, head_dim);
        rope::rotate(packed, cos.data(), sin.data(), pairs, stride, layout, inverse);
        rotate.add(y.data(), y.size());
        rope::apply(angles, packed, positions.data(), layout, inverse);
        apply.add(y.data(), y.size());
        rope::apply(angles, packed, positions32.data(), layout, inverse);
        apply.add(y.data(), y.size());
      }
      const std::string variant =
          std::string(name_of(layout)) + (inverse ? ".inverse." : ".forward.") + type;
      digests["rope.rotate." + variant] = rotate.value();
      digests["rope.apply." + variant] = apply.value();
    }
}

void f32_angles_digests(Digests& digests) {
  Digest range, large;
  for (const std::size_t pairs : {1, 13, 64, 75}) {
    const rope::F32Angles angles(2 * pairs, 10000, pairs == 13 ? 4 : 1);
    std::vector<float> cos(600 * pairs), sin(cos.size());
    for (const std::int64_t first : kFirsts) {
      angles.cos_sin(first, 600, cos.data(), sin.data(), static_cast<std::ptrdiff_t>(pairs));
      range.add(cos.data(), cos.size());
      range.add(sin.data(), sin.size());
    }
  }
  const std::size_t pairs = 64, count = (std::size_t{1} << 20) / pairs + 1;
  Memory<float> cos(Region::of(count, pairs), 0), sin(Region::of(count, pairs), 0);
  const rope::F32Angles angles(2 * pairs, 500000);
  for (const std::int64_t first : {std::int64_t{-1000}, std::int64_t{1} << 24}) {
    angles.cos_sin(first, count, cos.data(), sin.data(), pairs);
    large.add(cos.data(), count * pairs);
    large.add(sin.data(), count * pairs);
  }
  digests["rope.f32_angles.range.f32"] = range.value();
  digests["rope.f32_angles.streamed.f32"] = large.value();
}

template <class T>
void alibi_digests(const std::string& type, Digests& digests) {
  using alibi::Bias;
  using alibi::Form;
  using alibi::Rule;
  const auto list = list_of_positions(40);
  for (const auto& [rule_name, rule] :
       std::map<std::string, Rule>{{"press", Rule::press}, {"geometric", Rule::geometric}}) {
    Digest slopes;
    for (const std::size_t heads : {1, 8, 12, 40, 71}) {
      const Bias bias({heads, rule});
      for (std::size_t head = 0; head < heads; ++head) {
        const T slope = bias.template slope<T>(head);
        slopes.add(&slope, 1);
      }
    }
    digests["alibi.slopes." + rule_name + "." + type] = slopes.value();
    for (const auto& [form_name, form] :
         std::map<std::string, Form>{{"causal_distance", Form::causal_distance},
                                     {"distance", Form::distance},
                                     {"key", Form::key}}) {
      Digest filled, added, large;
      const Bias bias({12, rule, 8, 5, 6});
      for (const auto& [queries, keys] : std::initializer_list<std::pair<Positions, Positions>>{
               {Positions::run(500, 270), Positions::run(-300, 2111)},
               {Positions::run(-kLimit + 1, 9), Positions::run(kLimit - 75, 75)},
               {Positions::of(list.data(), 40), Positions::run(-20, 40)},
               {Positions::run(100, 5), Positions::of(list.data(), 40)}}) {
        const std::size_t size = bias.heads() * queries.count * keys.count;
        std::vector<T> scores = Generator(9).numbers<T>(size);
        const auto packed = Scores<T>::packed(scores.data(), queries.count, keys.count);
        bias.add(form, queries, keys, packed);
        added.add(scores.data(), size);
        bias.fill(form, queries, keys, packed);
        filled.add(scores.data(), size);
      }
      const std::string variant = rule_name + "." + form_name + "." + type;
      digests["alibi.fill." + variant] = filled.value();
      digests["alibi.add." + variant] = added.value();
      if (rule == Rule::geometric) continue;
      const std::size_t columns = 2048, rows = (std::size_t{8} << 20) / sizeof(T) / columns / 6 + 1;
      std::vector<T> scores(6 * rows * columns);
      bias.fill(form, Positions::run(0, rows), Positions::run(0, columns),
                Scores<T>::packed(scores.data(), rows, columns));
      large.add(scores.data(), scores.size());
      digests["alibi.streamed." + variant] = large.value();
    }
  }
}

void bucket_digests(Digests& digests) {
  for (const bool bidirectional : {true, false}) {
    Digest digest;
    for (const auto& [buckets, distance] :
         std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
             {32, 128}, {64, 1000}, {320, 800}, {8, 1 << 30}}) {
      const t5::Buckets kernel({buckets, distance, bidirectional});
      for (std::int64_t relative = -3000; relative <= 3000; ++relative)
        digest.add(kernel.bucket(relative));
      for (const std::int64_t relative : list_of_positions(1000))
        digest.add(kernel.bucket(2 * relative));
    }
    digests[std::string("t5.bucket.") + (bidirectional ? "both_sides" : "one_side")] =
        digest.value();
  }
}

template <class T>
void t5_digests(const std::string& type, Digests& digests) {
  const auto list = list_of_positions(40);
  for (const bool bidirectional : {true, false}) {
    const std::string variant = std::string(bidirectional ? "both_sides." : "one_side.") + type;
    const t5::Buckets kernel({32, 128, bidirectional});
    const auto table = Generator(8).numbers<T>(32 * 3);
    Digest filled, large;
    for (const auto& [queries, keys] : std::initializer_list<std::pair<Positions, Positions>>{
             {Positions::run(500, 270), Positions::run(-300, 2111)},
             {Positions::run(-kLimit + 1, 9), Positions::run(kLimit - 75, 75)},
             {Positions::of(list.data(), 40), Positions::run(-20, 40)},
             {Positions::run(100, 5), Positions::of(list.data(), 40)}}) {
      std::vector<T> bias(3 * queries.count * keys.count);
      kernel.fill(queries, keys, table.data(), 3, 3,
                  Scores<T>::packed(bias.data(), queries.count, keys.count));
      filled.add(bias.data(), bias.size());
    }
    const std::size_t columns = 2048, rows = (std::size_t{8} << 20) / sizeof(T) / columns / 3 + 1;
    std::vector<T> bias(3 * rows * columns);
    kernel.fill(Positions::run(0, rows), Positions::run(0, columns), table.data(), 3, 3,
                Scores<T>::packed(bias.data(), rows, columns));
    large.add(bias.data(), bias.size());
    digests["t5.fill." + variant] = filled.value();
    digests["t5.streamed." + variant] = large.value();
  }
}

template <class T, class Position>
void learned_digests(const std::string& type, Digests& digests) {
  Digest gathered, added;
  Generator random(10);
  for (const auto& [width, count] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
           {1, 9},
           {31, 9},
           {64, 9},
           {129, 9},
           {768, (std::size_t{8} << 20) / sizeof(T) / 768 + 1}}) {
    const std::size_t rows = 50;
    const auto elements = random.numbers<T>(rows * width), x = random.numbers<T>(count * width);
    const auto positions = random.positions<Position>(count, 0, 47);
    const auto stride = static_cast<std::ptrdiff_t>(width);
    const learned::Table<T> table{elements.data(), rows, width, stride, 2};
    std::vector<T> out(count * width);
    learned::embed(table, positions.data(), count, out.data(), stride);
    gathered.add(out.data(), out.size());
    learned::embed_and_add(table, positions.data(), count, x.data(), stride, out.data(), stride);
    added.add(out.data(), out.size());
  }
  digests["learned.embed." + type] = gathered.value();
  digests["learned.embed_and_add." + type] = added.value();
}

void shaw_digests(Digests& digests) {
  const auto list = list_of_positions(300);
  for (const auto& [name, sign] :
       std::map<std::string, shaw::Sign>{{"key_minus_query", shaw::Sign::key_minus_query},
                                         {"query_minus_key", shaw::Sign::query_minus_key}})
    for (const bool is_list : {false, true}) {
      Digest logits, terms;
      Generator random(11);
      for (const auto& [k, width, rows, columns] :
           std::initializer_list<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>>{
               {0, 1, 3, 33},
               {16, 64, 19, 300},
               {5, 75, 9, 170},
               {127, 9, 8, 300},
               {300, 17, 9, 200},
               {16, 8, 900, 2500}}) {
        if (is_list && columns > 300) continue;
        const std::size_t heads = 2;
        const auto table = random.numbers<float>((2 * k + 1) * width);
        const auto queries = Positions::run(columns / 2, rows);
        const auto keys =
            is_list ? Positions::of(list.data(), columns) : Positions::run(0, columns);
        const auto q = random.numbers<float>(heads * rows * width);
        const auto weights = random.numbers<float>(heads * rows * columns);
        std::vector<float> out(heads * rows * columns), term(heads * rows * width);
        shaw::KeyLogits(table.data(), k, width, sign)(
            Scores<const float>::packed(q.data(), rows, width), heads, queries, keys,
            Scores<float>::packed(out.data(), rows, columns));
        logits.add(out.data(), out.size());
        shaw::value_term(table.data(), k, width, sign,
                         Scores<const float>::packed(weights.data(), rows, columns), heads, queries,
                         keys, Scores<float>::packed(term.data(), rows, width));
        terms.add(term.data(), term.size());
      }
      const std::string variant = name + (is_list ? ".list.f32" : ".run.f32");
      digests["shaw.key_logits." + variant] = logits.value();
      digests["shaw.value_term." + variant] = terms.value();
    }
}

Digests digests_of_kernels() {
  Digests digests;
  const auto of = [&]<class T>(T) {
    const std::string type = kTypeName<T>;
    sinusoidal_digests<T>(type, digests);
    rope_digests<T>(type, digests);
    alibi_digests<T>(type, digests);
    t5_digests<T>(type, digests);
    learned_digests<T, std::int32_t>("int32." + type, digests);
    learned_digests<T, std::int64_t>("int64." + type, digests);
  };
  of(float{});
  of(F16{});
  of(BF16{});
  f32_angles_digests(digests);
  bucket_digests(digests);
  shaw_digests(digests);
  return digests;
}

std::string hexadecimal(std::uint64_t digest) {
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, digest);
  return text;
}

TEST(Digests, are_those_of_every_isa_and_compiler) {
  const Digests found = digests_of_kernels();
  EXPECT_EQ(last_isa(), forced_isa());
  if (std::getenv("POSPROOF_WRITE_DIGESTS") != nullptr) {
    std::ofstream file(POSPROOF_DIGESTS);
    for (const auto& [name, digest] : found) file << name << " " << hexadecimal(digest) << "\n";
    GTEST_SKIP() << "wrote " << POSPROOF_DIGESTS;
  }
  std::ifstream file(POSPROOF_DIGESTS);
  ASSERT_TRUE(file) << POSPROOF_DIGESTS;
  std::map<std::string, std::string> committed;
  for (std::string name, digest; file >> name >> digest;)
    EXPECT_TRUE(committed.emplace(name, digest).second) << name << " is there twice";
  for (const auto& [name, digest] : found)
    EXPECT_EQ(hexadecimal(digest), committed[name])
        << name << " on " << optimized::name(forced_isa());
  for (const auto& [name, digest] : committed)
    EXPECT_TRUE(found.contains(name))
        << name << " is in " << POSPROOF_DIGESTS << ", no kernel has it";
}

}  // namespace
}  // namespace posproof::optimized::tests
