#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "optimized/core/isa.hpp"

namespace posproof::bench {

/// A ratio that a kernel must reach, of minima of one run.
struct Required {
  /// `speed`: theirs/ours ≥ limit; `time`: ours/theirs ≤ limit.
  enum class Sense { speed, time };
  /// A floor's name, a peer's name, "floor" (the fastest of the floors) or "best peer".
  std::string against;
  Sense sense;
  double limit;
};

struct Program {
  std::string name;
  std::function<void()> run;
};

struct Prepared {
  std::function<void()> ours;
  std::vector<Program> floors;
  /// What a run must change.
  const unsigned char* output;
  std::size_t output_bytes;
  std::shared_ptr<const void> keep;  ///< where the output lies
};

/// One kernel at one size. Names are those of the peers (peers/).
struct Work {
  std::string name, shape;
  double bytes;       ///< read and written
  double operations;  ///< floating-point ones of a run, 0 where it only moves bytes
  std::vector<Required> required;
  std::function<Prepared(optimized::Isa)> prepare;
};

std::vector<Work> works();

}  // namespace posproof::bench
