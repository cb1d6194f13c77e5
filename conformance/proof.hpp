#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "optimized/core/isa.hpp"

namespace posproof {

/// The proof that cos/sin tables in f32 are correctly rounded, cut into chunks that can be done
/// anywhere and in any order. docs/error-model.md, "The proof".
///
/// Tables: rope_theta 1e4, 1.5e5, 5e5, 1e6, 1e7 with rotary_dim 256, 96, 80; a chunk is 2^16
/// positions of one of them, from 0 up to 2^31.
struct ProofPlan {
  std::uint64_t first, last;    ///< chunks [first, last) of all
  std::uint64_t per_table = 0;  ///< so many chunks of each table, evenly spread; 0: every one

  /// Shard `index` of `count`, index from 1. Throws std::invalid_argument.
  static ProofPlan shard(std::uint64_t index, std::uint64_t count, std::uint64_t per_table);
};

/// What was found so far.
struct ProofState {
  std::uint64_t done = 0;            ///< chunks of the plan
  std::uint64_t values = 0;          ///< looked at
  std::uint64_t undecided = 0;  ///< that some range or list leaves so; all compared with the reference
  std::uint64_t drawn = 0;           ///< others compared with the reference
  std::uint64_t wrong = 0;
  std::vector<std::string> examples;  ///< the first few wrong ones
};

nlohmann::json to_json(const ProofState& state);
/// Throws std::invalid_argument.
ProofState proof_state_from(const nlohmann::json& json);

/// Does the chunks of a plan from state.done on.
class Proof {
 public:
  Proof(ProofPlan plan, ProofState state, optimized::Isa isa);
  ~Proof();

  bool is_finished() const { return state_.done == plan_.last - plan_.first; }
  const ProofState& state() const { return state_; }
  void next_chunk();

 private:
  struct Table;

  void compare(float found, std::int64_t position, std::size_t pair, bool is_sin, const char* what);

  ProofPlan plan_;
  ProofState state_;
  optimized::Isa isa_;
  std::unique_ptr<Table> table_;
};

}  // namespace posproof
