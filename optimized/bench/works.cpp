#include "optimized/bench/works.hpp"

#include <cstring>
#include <random>

#include "optimized/alibi.hpp"
#include "optimized/bench/buffer.hpp"
#include "optimized/bench/floors.hpp"
#include "optimized/core/rounding.hpp"
#include "optimized/learned.hpp"
#include "optimized/rope.hpp"
#include "optimized/shaw.hpp"
#include "optimized/sinusoidal.hpp"
#include "optimized/t5.hpp"

namespace posproof::bench {
namespace {

using optimized::BF16;
using optimized::F16;
using optimized::Isa;
using optimized::Positions;
using optimized::Scores;

constexpr std::size_t kHeadDim = 128, kPairs = 64, kHeads = 32;

// Names of floors.
const std::string kStreamedFill = "non-temporal fill", kPlainFill = "plain fill",
                  kMemset = "memset";
const std::string kChange = "read-change-write", kChangeAhead = "read-change-write, prefetched",
                  kChangeStreamed = "read-change-write, non-temporal";

// As peers.json names them; "ggml scalar" is its running product.
const std::string kGlibc = "glibc", kGgml = "ggml", kRunningProduct = "running product",
                  kSleef = "SLEEF u10", kHighway = "Highway", kOnnx = "ONNX Runtime",
                  kPyTorch = "PyTorch", kFloor = "floor", kBestPeer = "best peer";

Required faster(const std::string& against, double limit) {
  return {against, Required::Sense::speed, limit};
}
Required slower(const std::string& against, double limit) {
  return {against, Required::Sense::time, limit};
}

template <class T>
struct Type;
template <>
struct Type<float> {
  static constexpr const char* kName = "f32";
};
template <>
struct Type<F16> {
  static constexpr const char* kName = "f16";
};
template <>
struct Type<BF16> {
  static constexpr const char* kName = "bf16";
};

template <class T>
std::string typed(const std::string& before, const std::string& after) {
  return before + "_" + Type<T>::kName + (after.empty() ? "" : "_" + after);
}

template <class T>
void draw(T* values, std::size_t n) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  // A period of 64 Ki values: drawing more takes longer than the work.
  constexpr std::size_t kPeriod = 65536;
  for (std::size_t i = 0; i < std::min(n, kPeriod); ++i)
    values[i] = optimized::core::narrow<T>(uniform(engine));
  for (std::size_t i = kPeriod; i < n; i += kPeriod)
    std::memcpy(static_cast<void*>(values + i), values, std::min(kPeriod, n - i) * sizeof(T));
}

std::vector<Program> fills(void* to, std::size_t bytes) {
  return {{kStreamedFill, [=] { fill(to, bytes, Stores::streamed); }},
          {kPlainFill, [=] { fill(to, bytes, Stores::plain); }},
          {kMemset, [=] { std::memset(to, 0x3f, bytes); }}};
}

std::vector<Program> changes(void* at, std::size_t bytes) {
  return {{kChange, [=] { change(at, bytes, Stores::plain); }},
          {kChangeAhead, [=] { change(at, bytes, Stores::ahead); }},
          {kChangeStreamed, [=] { change(at, bytes, Stores::streamed); }}};
}

template <class T>
Prepared prepared(std::function<void()> ours, std::vector<Program> floors,
                  const std::shared_ptr<T[]>& output, std::size_t count) {
  return {std::move(ours), std::move(floors), reinterpret_cast<const unsigned char*>(output.get()),
          count * sizeof(T), output};
}

/// cos and sin of `rows` positions from `first` on, in one buffer so that one fill covers both.
template <class T>
Work table(const std::string& size, std::int64_t first, std::size_t rows, bool makes_angles,
           std::vector<Required> required) {
  const std::size_t half = rows * kPairs;
  const auto bytes = static_cast<double>(2 * half * sizeof(T));
  return {typed<T>("table", size),
          std::to_string(rows) + " × 64 cos and sin",
          bytes,
          2.5 * static_cast<double>(2 * half),
          std::move(required),
          [=](Isa isa) {
            const auto to = buffer<T>(2 * half);
            const auto angles =
                std::make_shared<optimized::rope::Angles>(kHeadDim, 10000.0, 1.0, isa);
            T *cos = to.get(), *sin = cos + half;
            return prepared<T>(
                [=] {
                  if (makes_angles)
                    optimized::rope::Angles(kHeadDim, 10000.0, 1.0, isa)
                        .cos_sin(first, rows, cos, sin, kPairs);
                  else
                    angles->cos_sin(first, rows, cos, sin, kPairs);
                },
                fills(to.get(), 2 * half * sizeof(T)), to, 2 * half);
          }};
}

template <class T>
Work sinusoidal(std::vector<Required> required) {
  constexpr std::size_t kRows = (std::size_t{64} << 20) / (kHeadDim * sizeof(T));
  return {typed<T>("table", "interleaved"),
          std::to_string(kRows) + " × 128, sin and cos in turn",
          64.0 * (1 << 20),
          2.5 * static_cast<double>(kRows * kHeadDim),
          std::move(required),
          [=](Isa isa) {
            const auto to = buffer<T>(kRows * kHeadDim);
            return prepared<T>(
                [=] {
                  optimized::sinusoidal::Table(
                      {.d_model = kHeadDim, .layout = optimized::sinusoidal::Layout::interleaved},
                      isa)
                      .range(0, kRows, to.get(), kHeadDim);
                },
                fills(to.get(), kRows * kHeadDim * sizeof(T)), to, kRows * kHeadDim);
          }};
}

Work hf_table() {
  constexpr std::size_t kRows = 131072, kHalf = kRows * kPairs;
  return {"table_hf_f32_memory",
          "131072 × 64 cos and sin of f32 angles",
          2.0 * kHalf * 4,
          2.5 * 2 * kHalf,
          {slower(kMemset, 1.05)},
          [](Isa isa) {
            const auto to = buffer<float>(2 * kHalf);
            return prepared<float>(
                [=] {
                  optimized::rope::F32Angles(kHeadDim, 10000.0, 1.0, isa)
                      .cos_sin(0, kRows, to.get(), to.get() + kHalf, kPairs);
                },
                fills(to.get(), 2 * kHalf * 4), to, 2 * kHalf);
          }};
}

template <class T>
Work rope(optimized::rope::Layout layout, bool in_cache) {
  const std::size_t tokens = in_cache ? 64 : 4096, count = tokens * kHeads * kHeadDim;
  const bool is_half = layout == optimized::rope::Layout::half;
  constexpr bool is_f32 = std::is_same_v<T, float>, is_bf16 = std::is_same_v<T, BF16>;
  std::vector<Required> required = {slower(kFloor, in_cache ? (is_f32    ? 1.03
                                                               : is_bf16 ? 1.85
                                                                         : 1.6)
                                                            : (is_f32 ? 1.02 : 1.25))};
  if (!is_bf16) required.push_back(faster(kOnnx, 2.4));
  return {
      typed<T>("rope",
               std::string(is_half ? "half" : "interleaved") + (in_cache ? "_cache" : "_memory")),
      std::to_string(tokens) + " × 32 × 128 in place",
      2.0 * static_cast<double>(count * sizeof(T)),
      3.0 * static_cast<double>(count),
      std::move(required),
      [=](Isa isa) {
        const auto x = buffer<T>(count);
        draw(x.get(), count);
        const auto waves = buffer<float>(2 * tokens * kPairs);
        float *cos = waves.get(), *sin = cos + tokens * kPairs;
        optimized::rope::Angles(kHeadDim, 10000.0, 1.0, isa).cos_sin(0, tokens, cos, sin, kPairs);
        const auto heads =
            optimized::rope::Heads<T>::packed(x.get(), x.get(), tokens, kHeads, kHeadDim);
        return prepared<T>(
            [=, keep = waves] {
              optimized::rope::rotate(heads, cos, sin, kPairs, kPairs, layout, false, isa);
            },
            changes(x.get(), count * sizeof(T)), x, count);
      }};
}

/// One token, its angles made on the fly.
Work rope_decode() {
  constexpr std::size_t kCount = kHeads * kHeadDim;
  return {"rope_f32_half_decode",
          "1 × 32 × 128 in place, angles on the fly",
          2.0 * kCount * 4,
          3.0 * kCount,
          {slower(kGgml, 0.06), faster(kOnnx, 2.4)},
          [](Isa isa) {
            const auto x = buffer<float>(kCount);
            draw(x.get(), kCount);
            const auto angles =
                std::make_shared<optimized::rope::Angles>(kHeadDim, 10000.0, 1.0, isa);
            const auto heads =
                optimized::rope::Heads<float>::packed(x.get(), x.get(), 1, kHeads, kHeadDim);
            return prepared<float>(
                [=] {
                  const std::int64_t position = 4000;
                  optimized::rope::apply(*angles, heads, &position, optimized::rope::Layout::half,
                                         false);
                },
                changes(x.get(), kCount * 4), x, kCount);
          }};
}

template <class T>
Work alibi(bool adds) {
  constexpr std::size_t kLength = 2048, kCount = kHeads * kLength * kLength;
  return {typed<T>(adds ? "alibi_add" : "alibi_fill", ""),
          "[32, 2048, 2048]",
          static_cast<double>(kCount * sizeof(T)) * (adds ? 2 : 1),
          adds ? static_cast<double>(kCount) : 0.0,
          {adds ? slower(kChange, 1.0) : faster(kStreamedFill, 0.95)},
          [=](Isa isa) {
            const auto scores = buffer<T>(kCount);
            if (adds) draw(scores.get(), kCount);
            const auto bias = std::make_shared<optimized::alibi::Bias>(
                optimized::alibi::Parameters{.num_heads = kHeads}, isa);
            const auto to = Scores<T>::packed(scores.get(), kLength, kLength);
            const auto run = Positions::run(0, kLength);
            return prepared<T>(
                [=] {
                  if (adds)
                    bias->add(optimized::alibi::Form::causal_distance, run, run, to);
                  else
                    bias->fill(optimized::alibi::Form::distance, run, run, to);
                },
                adds ? changes(scores.get(), kCount * sizeof(T))
                     : fills(scores.get(), kCount * sizeof(T)),
                scores, kCount);
          }};
}

template <class T>
Work t5() {
  constexpr std::size_t kLength = 1024, kT5Heads = 8, kCount = kT5Heads * kLength * kLength;
  return {typed<T>("t5_fill", ""),
          "[8, 1024, 1024]",
          static_cast<double>(kCount * sizeof(T)),
          0,
          {faster(kStreamedFill, 0.93)},
          [](Isa isa) {
            const auto bias = buffer<T>(kCount), column = buffer<T>(32 * kT5Heads);
            draw(column.get(), 32 * kT5Heads);
            const auto buckets =
                std::make_shared<optimized::t5::Buckets>(optimized::t5::Parameters{}, isa);
            const auto run = Positions::run(0, kLength);
            return prepared<T>(
                [=] {
                  buckets->fill(run, run, column.get(), static_cast<std::ptrdiff_t>(kT5Heads),
                                kT5Heads, Scores<T>::packed(bias.get(), kLength, kLength));
                },
                fills(bias.get(), kCount * sizeof(T)), bias, kCount);
          }};
}

constexpr std::size_t kShawLength = 1024, kShawWidth = 64, kShawHeads = 8, kShawDistance = 16,
                      kShawRows = 2 * kShawDistance + 1;
constexpr std::size_t kShawScores = kShawHeads * kShawLength * kShawLength,
                      kShawInputs = kShawHeads * kShawLength * kShawWidth;
/// Of every query with every row of the relative table.
constexpr double kShawProducts = 2.0 * kShawInputs * kShawRows;

Work shaw_logits() {
  return {"shaw_logits_f32",
          "L 1024, d 64, h 8, k 16",
          4.0 * (kShawScores + kShawInputs),
          kShawProducts,
          {faster(kPyTorch, 4)},
          [](Isa isa) {
            const auto q = buffer<float>(kShawInputs), logits = buffer<float>(kShawScores),
                       rows = buffer<float>(kShawRows * kShawWidth);
            draw(q.get(), kShawInputs);
            draw(rows.get(), kShawRows * kShawWidth);
            const auto kernel = std::make_shared<optimized::shaw::KeyLogits>(
                rows.get(), kShawDistance, kShawWidth, optimized::shaw::Sign::key_minus_query, isa);
            const auto run = Positions::run(0, kShawLength);
            return prepared<float>(
                [=] {
                  (*kernel)(Scores<const float>::packed(q.get(), kShawLength, kShawWidth),
                            kShawHeads, run, run,
                            Scores<float>::packed(logits.get(), kShawLength, kShawLength));
                },
                fills(logits.get(), kShawScores * 4), logits, kShawScores);
          }};
}

Work shaw_values() {
  return {
      "shaw_values_f32",
      "L 1024, d 64, h 8, k 16",
      4.0 * (kShawScores + kShawInputs),
      kShawProducts + kShawScores,
      {faster(kPyTorch, 6)},
      [](Isa isa) {
        const auto weights = buffer<float>(kShawScores), out = buffer<float>(kShawInputs),
                   rows = buffer<float>(kShawRows * kShawWidth);
        draw(weights.get(), kShawScores);
        draw(rows.get(), kShawRows * kShawWidth);
        const auto run = Positions::run(0, kShawLength);
        const auto sum = std::make_shared<std::uint32_t>(0);
        return prepared<float>(
            [=] {
              optimized::shaw::value_term(
                  rows.get(), kShawDistance, kShawWidth, optimized::shaw::Sign::key_minus_query,
                  Scores<const float>::packed(weights.get(), kShawLength, kShawLength), kShawHeads,
                  run, run, Scores<float>::packed(out.get(), kShawLength, kShawWidth), isa);
            },
            {{"read", [=] { *sum += read(weights.get(), kShawScores * 4); }}}, out, kShawInputs);
      }};
}

/// Row p·1677 mod 4096 at place p, as ggml and ONNX Runtime have it.
template <class T>
Work learned(bool adds) {
  constexpr std::size_t kRows = 4096, kCount = kRows * kRows;
  std::vector<Required> required = {slower(kFloor, 1.15)};
  if (std::is_same_v<T, float>) required.push_back(faster(kBestPeer, 1.7));
  return {
      typed<T>(adds ? "learned_add" : "learned_gather", ""),
      "[4096, 4096]",
      static_cast<double>(kCount * sizeof(T)) * (adds ? 3 : 2),
      adds ? static_cast<double>(kCount) : 0.0,
      std::move(required),
      [=](Isa isa) {
        const auto rows = buffer<T>(kCount), to = buffer<T>(kCount);
        const auto x = buffer<T>(adds ? kCount : 1);
        draw(rows.get(), kCount);
        if (adds) draw(x.get(), kCount);
        const auto positions = buffer<std::int64_t>(kRows);
        for (std::size_t p = 0; p < kRows; ++p)
          positions[static_cast<std::ptrdiff_t>(p)] = static_cast<std::int64_t>(p * 1677 % kRows);
        const optimized::learned::Table<T> table{rows.get(), kRows, kRows,
                                                 static_cast<std::ptrdiff_t>(kRows)};
        constexpr auto kStride = static_cast<std::ptrdiff_t>(kRows);
        constexpr std::size_t kBytes = kCount * sizeof(T);
        std::vector<Program> floors;
        for (const auto& [name, stores] :
             {std::pair{"plain", Stores::plain}, std::pair{"non-temporal", Stores::streamed},
              std::pair{"prefetched", Stores::ahead}}) {
          if (adds)
            floors.push_back({std::string("read two, write one, ") + name, [=, stores = stores] {
                                combine(rows.get(), x.get(), to.get(), kBytes, stores);
                              }});
          else
            floors.push_back({std::string("copy, ") + name, [=, stores = stores] {
                                copy(rows.get(), to.get(), kBytes, stores);
                              }});
        }
        return prepared<T>(
            [=, keep = rows] {
              if (adds)
                optimized::learned::embed_and_add(table, positions.get(), kRows, x.get(), kStride,
                                                  to.get(), kStride, isa);
              else
                optimized::learned::embed(table, positions.get(), kRows, to.get(), kStride, isa);
            },
            std::move(floors), to, kCount);
      }};
}

template <class T>
void add_typed(std::vector<Work>& all) {
  constexpr std::size_t kMemory = (std::size_t{64} << 20) / (kHeadDim * sizeof(T)),
                        kCache = (std::size_t{1} << 20) / (kHeadDim * sizeof(T));
  constexpr bool is_f32 = std::is_same_v<T, float>;
  using Needs = std::vector<Required>;
  all.push_back(
      table<T>("memory", 0, kMemory, true,
               is_f32 ? Needs{faster(kStreamedFill, 0.90), faster(kGlibc, 23),
                              faster(kRunningProduct, 23), faster(kSleef, 6), faster(kHighway, 1.9)}
                      : Needs{}));
  all.push_back(
      table<T>("cache", 0, kCache, false, is_f32 ? Needs{faster(kMemset, 0.70)} : Needs{}));
  all.push_back(
      table<T>("row", 100000, 1, false, is_f32 ? Needs{slower(kRunningProduct, 0.06)} : Needs{}));
}

}  // namespace

std::vector<Work> works() {
  using optimized::rope::Layout;
  std::vector<Work> all;
  add_typed<float>(all);
  add_typed<F16>(all);
  add_typed<BF16>(all);
  all.push_back(sinusoidal<float>({faster(kStreamedFill, 0.90)}));
  all.push_back(sinusoidal<F16>({}));
  all.push_back(sinusoidal<BF16>({}));
  all.push_back(hf_table());
  for (const bool in_cache : {false, true})
    for (const Layout layout : {Layout::half, Layout::interleaved}) {
      all.push_back(rope<float>(layout, in_cache));
      all.push_back(rope<F16>(layout, in_cache));
      all.push_back(rope<BF16>(layout, in_cache));
    }
  all.push_back(rope_decode());
  for (const bool adds : {false, true}) {
    all.push_back(alibi<float>(adds));
    all.push_back(alibi<F16>(adds));
    all.push_back(alibi<BF16>(adds));
  }
  all.push_back(t5<float>());
  all.push_back(t5<F16>());
  all.push_back(t5<BF16>());
  all.push_back(shaw_logits());
  all.push_back(shaw_values());
  for (const bool adds : {false, true}) {
    all.push_back(learned<float>(adds));
    all.push_back(learned<F16>(adds));
    all.push_back(learned<BF16>(adds));
  }
  return all;
}

}  // namespace posproof::bench
