#include <algorithm>
#include <cmath>

#include "conformance/bugs/core/kill_matrix.hpp"
#include "conformance/verify.hpp"
#include "fixtures/core/ask.hpp"
#include "properties/core/law.hpp"
#include "reference/core/registry.hpp"

namespace posproof::bugs {
namespace {

constexpr std::chrono::seconds kTimeout{60};
constexpr properties::Thoroughness kThoroughness{20260101, 50, false};

bool overlap(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(), [&b](const std::string& each) {
    return std::find(b.begin(), b.end(), each) != b.end();
  });
}

}  // namespace

const std::set<std::string>& classical_laws() {
  static const std::set<std::string> names{
      "rope/rotation_preserves_the_norm_of_every_pair", "rope/score_depends_on_the_offset_only",
      "rope/position_0_changes_nothing", "rope/distinct_positions_turn_differently"};
  return names;
}

bool asks_for_the_truth(const std::string& law) {
  return law.find("/random_calls_agree_with_the_truth") != std::string::npos ||
         law.find("/zeros_and_subnormals_are_numbers_like_others") != std::string::npos;
}

Trial::Trial(std::vector<Case> cases) : cases_(std::move(cases)), expectations_(cases_.size()) {
  in_parallel(cases_.size(), [this](std::size_t i) {
    if (!cases_[i].must_be_refused)
      expectations_[i] =
          expectation_of(cases_[i].operation, cases_[i].parameters, cases_[i].inputs);
  });
}

bool Trial::kills(const Case& asked, const std::optional<Expectation>& expectation,
                  Implementation& implementation) const {
  const Answer answer =
      implementation.run({asked.operation, asked.parameters, asked.inputs}, kTimeout);
  if (answer.kind == Answer::Kind::unsupported) return false;
  if (asked.must_be_refused)
    return answer.kind != Answer::Kind::refused && answer.kind != Answer::Kind::error;
  return answer.kind != Answer::Kind::outputs || !malformed(*expectation, answer.outputs).empty() ||
         !judge(*expectation, asked.inputs, answer.outputs).pass;
}

Kills Trial::of(const std::string& name, Implementation& implementation,
                const std::vector<std::string>& operations) const {
  Kills kills{name, {}, {}, false};
  for (std::size_t i = 0; i < cases_.size(); ++i)
    if (overlap({cases_[i].operation}, operations) &&
        this->kills(cases_[i], expectations_[i], implementation))
      kills.cases.insert(cases_[i].id);
  properties::Subject subject(implementation, std::nullopt);
  for (const properties::Law& law : properties::all_laws()) {
    if (!overlap(law.operations, operations)) continue;
    const auto verdict = properties::check(law, subject, kThoroughness).verdict;
    if (verdict == properties::Finding::Verdict::fail ||
        verdict == properties::Finding::Verdict::error)
      kills.laws.insert(law.name);
  }
  if (overlap({"rope.apply"}, operations)) kills.by_llama_cpp = !passes_llama_cpp(implementation);
  return kills;
}

bool passes_llama_cpp(Implementation& implementation) {
  constexpr std::size_t kTokens = 73, kHeads = 2, kWidth = 32;
  const Tensor x = numbers(Dtype::f32, {kTokens, kHeads, kWidth}, 1);
  for (const char* layout : {"half", "interleaved"}) {
    const auto rotated = [&](const Tensor& from, std::int64_t first, std::int64_t step) {
      std::vector<std::int64_t> at(kTokens);
      for (std::size_t i = 0; i < kTokens; ++i) at[i] = first + step * static_cast<std::int64_t>(i);
      return implementation.run(
          {"rope.apply",
           {{"head_dim", kWidth}, {"rotary_dim", kWidth / 2}, {"layout", layout}},
           {{"x", from}, {"positions", positions(at)}}},
          kTimeout);
    };
    const Answer far = rotated(x, 100, 1), near = rotated(x, 33, 1);
    if (far.kind != Answer::Kind::outputs || near.kind != Answer::Kind::outputs) return false;
    const Answer back = rotated(far.outputs.at("y"), -67, 0);
    if (back.kind != Answer::Kind::outputs) return false;
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference += std::fabs(back.outputs.at("y").value(i) - near.outputs.at("y").value(i));
      size += std::fabs(near.outputs.at("y").value(i));
    }
    if (!(difference < 1e-4 * size)) return false;
  }
  return true;
}

}  // namespace posproof::bugs
