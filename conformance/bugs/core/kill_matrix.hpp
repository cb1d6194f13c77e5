#pragma once

#include <map>
#include <set>

#include "conformance/bugs/core/model.hpp"
#include "conformance/judge.hpp"
#include "fixtures/core/case.hpp"

namespace posproof::bugs {

/// What noticed one implementation.
struct Kills {
  std::string name;             ///< "K-RL1", or "K-RI2: decode restarts at 0"
  std::set<std::string> cases;  ///< ids
  std::set<std::string> laws;
  bool by_llama_cpp = false;  ///< its own test of rope would have noticed
};

/// What others have: ‖R(p)x‖ = ‖x‖, scores by offset, R(0) = 1, no two positions alike.
const std::set<std::string>& classical_laws();
/// The laws that compare with the truth instead of with other answers.
bool asks_for_the_truth(const std::string& law);

/// Tries cases and laws on implementations; the truth of each case is computed once.
class Trial {
 public:
  explicit Trial(std::vector<Case> cases);

  /// `operations`: those that differ from a right implementation; what asks for none of them is not
  /// tried.
  Kills of(const std::string& name, Implementation& implementation,
           const std::vector<std::string>& operations) const;

  const std::vector<Case>& cases() const { return cases_; }

 private:
  bool kills(const Case& asked, const std::optional<Expectation>& expectation,
             Implementation& implementation) const;

  std::vector<Case> cases_;
  std::vector<std::optional<Expectation>> expectations_;  ///< none for what must be refused
};

/// R(−67)·R(100+i) = R(33+i) for 73 tokens in f32, both layouts, summed relative error below 1e-4,
/// as llama.cpp's tests/test-rope.cpp compares.
bool passes_llama_cpp(Implementation& implementation);

/// The whole table, and what is wrong with it.
struct KillMatrix {
  std::vector<Kills> models, right;
  std::vector<Case> cases;

  /// A sentence each: a model that survives, a right variation that is killed, a case that kills
  /// nothing and carries no flag that says why it is kept.
  std::vector<std::string> faults() const;
  nlohmann::json json() const;   ///< conformance/kills.json
  std::string markdown() const;  ///< docs/kill-matrix.md
};

/// On as many processes as there are cores: RapidCheck keeps its state in globals.
KillMatrix kill_matrix();

}  // namespace posproof::bugs
