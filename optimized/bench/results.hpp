#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "optimized/bench/timing.hpp"
#include "optimized/bench/works.hpp"

namespace posproof::bench {

/// Over the rounds of a run: the least minimum, the median of the medians.
struct Measured {
  std::string name;
  std::vector<Timing> rounds;

  double min_ns() const;
  double median_ns() const;
};

struct Verdict {
  Required required;
  std::string found;            ///< the one that was compared with
  std::optional<double> ratio;  ///< none where that was not run
  bool is_met() const;
  std::string relation() const { return required.sense == Required::Sense::speed ? "≥" : "≤"; }
};

struct Result {
  Work work;
  Measured ours;
  std::vector<Measured> floors, peers;

  const Measured& floor() const;
  const Measured* best_peer() const;
  double to_floor() const { return ours.min_ns() / floor().min_ns(); }
  double gigabytes_per_second() const { return work.bytes / ours.min_ns(); }
  std::vector<Verdict> verdicts() const;
};

struct PeerState {
  std::string name, version, why;
};

/// What bounds any program on this machine, measured by floors.cpp.
struct Roofs {
  double memory_gbps = 0, fill_gbps = 0, cache_gbps = 0, gflops = 0;
};

struct Run {
  std::string date, cpu, isa, compiler, version;
  int rounds = 0;
  double seconds = 0;
  Roofs roofs;
  std::vector<PeerState> peers;
  std::vector<Result> results;
};

/// Three digits: "1.71 ms", "0.957".
std::string time_text(double nanoseconds);
std::string number_text(double value);

std::string text(const Result& result);
nlohmann::json json(const Run& run);
/// `picture` is what the page links to, or empty.
std::string markdown(const Run& run, const std::string& picture);
std::string picture(const Run& run);

}  // namespace posproof::bench
