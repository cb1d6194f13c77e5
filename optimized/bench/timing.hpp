#pragma once

#include <functional>
#include <string>

namespace posproof::bench {

/// Of one run of a work.
struct Timing {
  double min_ns = 0, median_ns = 0;
};

/// Times `run` by Google Benchmark for about `seconds`, warmed up, in batches of 50 µs or more, as
/// the peers' children do (peers/child.h).
Timing time(const std::string& name, const std::function<void()>& run, double seconds);

}  // namespace posproof::bench
