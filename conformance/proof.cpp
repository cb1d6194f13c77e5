#include "conformance/proof.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "optimized/core/rounding.hpp"
#include "optimized/rope.hpp"
#include "reference/core/operation.hpp"
#include "reference/core/registry.hpp"
#include "reference/core/truth.hpp"
#include "reference/rope.hpp"

namespace posproof {
namespace {

constexpr std::array kBases{1e4, 1.5e5, 5e5, 1e6, 1e7};
constexpr std::array<std::size_t, 3> kRotaryDims{256, 96, 80};
constexpr std::uint64_t kTables = kBases.size() * kRotaryDims.size();
constexpr std::uint64_t kChunkPositions = std::uint64_t{1} << 16;
constexpr std::uint64_t kChunksOfTable = (std::uint64_t{1} << 31) / kChunkPositions;
constexpr std::size_t kExamples = 20;

/// splitmix64: the positions and pairs that are drawn.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

ProofPlan ProofPlan::shard(std::uint64_t index, std::uint64_t count, std::uint64_t per_table) {
  if (count < 1 || index < 1 || index > count)
    throw std::invalid_argument(fmt::format("shard: found {}/{}, allowed is 1/n to n/n", index, count));
  if (per_table > kChunksOfTable)
    throw std::invalid_argument(
        fmt::format("sample: found {}, allowed is 1 to {}", per_table, kChunksOfTable));
  const std::uint64_t all = kTables * (per_table == 0 ? kChunksOfTable : per_table);
  if (count > all)
    throw std::invalid_argument(fmt::format("shard: found {} shards of {} chunks", count, all));
  return {all * (index - 1) / count, all * index / count, per_table};
}

nlohmann::json to_json(const ProofState& state) {
  return {{"chunks", state.done}, {"values", state.values}, {"undecided", state.undecided},
          {"drawn", state.drawn}, {"wrong", state.wrong},   {"examples", state.examples}};
}

ProofState proof_state_from(const nlohmann::json& json) {
  try {
    const auto count = [&](const char* key) {
      const auto& value = json.at(key);
      if (!value.is_number_unsigned())
        throw std::invalid_argument(std::string(key) + ": found " + value.dump() +
                                    ", allowed is a count");
      return value.get<std::uint64_t>();
    };
    return {count("chunks"), count("values"), count("undecided"), count("drawn"), count("wrong"),
            json.at("examples").get<std::vector<std::string>>()};
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

/// One table: the kernel, and its frequencies in the arithmetic of the reference.
struct Proof::Table {
  std::uint64_t number;
  double base;
  std::size_t rotary_dim;
  optimized::rope::Angles kernel;
  Parameters parameters;
  std::vector<Real60> omega;

  Table(std::uint64_t table, optimized::Isa isa)
      : number(table),
        base(kBases[table / kRotaryDims.size()]),
        rotary_dim(kRotaryDims[table % kRotaryDims.size()]),
        kernel(rotary_dim, base, 1, isa),
        parameters(checked_parameters(find_operation("rope.cos_sin"),
                                      {{"head_dim", rotary_dim}, {"rope_theta", base}})),
        omega(reference::rope::inv_freq<Real60>(parameters, Recipe::exact)) {}

  template <class R>
  static bool rounded(const R& omega, std::int64_t position, bool is_sin, double& result) {
    const auto both = sin_cos(R(R(static_cast<double>(position)) * omega));
    return round_certainly(is_sin ? both.sin : both.cos, format_of(Dtype::f32), false, result);
  }

  float truth(std::int64_t position, std::size_t pair, bool is_sin) const {
    double result;
    if (rounded(omega[pair], position, is_sin, result)) return static_cast<float>(result);
    const auto finer = reference::rope::inv_freq<Real200>(parameters, Recipe::exact);
    if (rounded(finer[pair], position, is_sin, result)) return static_cast<float>(result);
    throw std::runtime_error("200 digits do not decide a wave");
  }
};

Proof::Proof(ProofPlan plan, ProofState state, optimized::Isa isa)
    : plan_(plan), state_(std::move(state)), isa_(isa) {
  if (state_.done > plan_.last - plan_.first)
    throw std::invalid_argument(fmt::format("chunks: found {}, allowed is at most {}", state_.done,
                                            plan_.last - plan_.first));
}
Proof::~Proof() = default;

void Proof::compare(float found, std::int64_t position, std::size_t pair, bool is_sin,
                    const char* what) {
  const float expected = table_->truth(position, pair, is_sin);
  if (found == expected) return;
  ++state_.wrong;
  if (state_.examples.size() < kExamples)
    state_.examples.push_back(
        fmt::format("rope_theta {} rotary_dim {} {} pair {} position {} {}: found {:a} expected {:a}",
                    table_->base, table_->rotary_dim, is_sin ? "sin" : "cos", pair, position, what,
                    found, expected));
}

void Proof::next_chunk() {
  const std::uint64_t number = plan_.first + state_.done;
  const std::uint64_t per_table = plan_.per_table == 0 ? kChunksOfTable : plan_.per_table;
  const std::uint64_t chunk =
      plan_.per_table == 0   ? number % per_table
      : plan_.per_table == 1 ? 0
                             : number % per_table * (kChunksOfTable - 1) / (per_table - 1);
  if (table_ == nullptr || table_->number != number / per_table)
    table_ = std::make_unique<Table>(number / per_table, isa_);
  const Table& table = *table_;
  const auto first = static_cast<std::int64_t>(chunk * kChunkPositions);

  table.kernel.waves().near_midpoints(
      first, kChunkPositions,
      [](void* context, std::int64_t position, std::size_t pair, bool is_sin) {
        auto& proof = *static_cast<Proof*>(context);
        const auto& waves = proof.table_->kernel.waves();
        const auto at = static_cast<double>(position);
        proof.compare(waves.wave<float>(at, pair, is_sin), position, pair, is_sin, "as written");
        proof.compare(optimized::core::round_to<float>(waves.exact().wave(at, pair, is_sin, {1, 0})),
                      position, pair, is_sin, "by the exact path");
        ++proof.state_.undecided;
      },
      this);

  // Two rows as a range writes them, one pair of which is looked at.
  const std::uint64_t random = mixed(number);
  const auto position = first + static_cast<std::int64_t>(random % (kChunkPositions - 1));
  const std::size_t pairs = table.kernel.pairs(), pair = (random >> 32) % pairs;
  std::array<float, 4 * 128> rows;
  float *cos = rows.data(), *sin = rows.data() + 2 * pairs;
  table.kernel.cos_sin(position, 2, cos, sin, static_cast<std::ptrdiff_t>(pairs));
  for (const std::size_t row : {std::size_t{0}, std::size_t{1}}) {
    const auto at = position + static_cast<std::int64_t>(row);
    compare(cos[row * pairs + pair], at, pair, false, "drawn");
    compare(sin[row * pairs + pair], at, pair, true, "drawn");
    state_.drawn += 2;
  }
  state_.values += 2 * pairs * kChunkPositions;
  ++state_.done;
}

}  // namespace posproof
