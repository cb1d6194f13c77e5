#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"

namespace posproof::properties::nope {
namespace {

using nlohmann::json;

constexpr std::int64_t kFar = (std::int64_t{1} << 31) - 1;
constexpr std::size_t kTokens = 4;

Tensors drawn_inputs(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  const Shape shape{*count_between(1, 2), kTokens, *count_between(1, 5)};
  Tensors inputs;
  for (const char* name : {"q", "k", "v"}) inputs.emplace(name, *tensors(dtype, shape, 1));
  return inputs;
}

Measured attended(Subject& subject, bool causal, Tensors inputs,
                  const std::vector<std::int64_t>& queries, const std::vector<std::int64_t>& keys) {
  inputs.emplace("q_positions", integers(queries));
  inputs.emplace("k_positions", integers(keys));
  return subject.measure("attention", {{"scheme", {{"name", "nope"}}}, {"causal", causal}}, inputs)
      .at("out");
}

void require_same(const Measured& a, const Measured& b) {
  for (std::size_t i = 0; i < a.got.size(); ++i)
    require_meet(a.range.data()[i], b.range.data()[i], "out " + std::to_string(i));
}

void positions_are_ignored(Subject& subject) {
  const Tensors inputs = drawn_inputs(subject);
  const auto queries = *position_lists(kTokens, kFar), keys = *position_lists(kTokens, kFar);
  require_same(attended(subject, false, inputs, {0, 1, 2, 3}, {0, 1, 2, 3}),
               attended(subject, false, inputs, queries, keys));
}

/// A causal mask asks which position is greater, never by how much.
void under_a_causal_mask_only_the_order_of_positions_counts(Subject& subject) {
  const Tensors inputs = drawn_inputs(subject);
  std::vector<std::int64_t> spread{*positions(1 << 20)};
  while (spread.size() < kTokens)
    spread.push_back(spread.back() + 1 + std::abs(*positions(1 << 28)));
  require_same(attended(subject, true, inputs, {0, 1, 2, 3}, {0, 1, 2, 3}),
               attended(subject, true, inputs, spread, spread));
}

}  // namespace

std::vector<Law> laws() {
  const std::vector<std::string> attention{"attention"};
  return {{"nope/positions_are_ignored", attention, positions_are_ignored},
          {"nope/under_a_causal_mask_only_the_order_of_positions_counts", attention,
           under_a_causal_mask_only_the_order_of_positions_counts}};
}

}  // namespace posproof::properties::nope
