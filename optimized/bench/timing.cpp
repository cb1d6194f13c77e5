#include "optimized/bench/timing.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

namespace posproof::bench {
namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::nano>(Clock::now() - since).count();
}

/// What it would print goes into our own table.
class Silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

}  // namespace

Timing time(const std::string& name, const std::function<void()>& run, double seconds) {
  static const bool is_ready = [] {
    int argc = 1;
    char program[] = "posproof";
    char* argv[] = {program, nullptr};
    benchmark::Initialize(&argc, argv);
    return true;
  }();
  if (!is_ready) return {};
  run();
  // A batch takes 50 µs or more, against a clock of about 30 ns.
  long batch = 1;
  for (double spent = 0; batch < (1L << 24); batch *= 2) {
    const auto start = Clock::now();
    for (long i = 0; i < batch; ++i) run();
    spent = nanoseconds(start);
    if (spent >= 5e4) break;
  }
  std::vector<double> samples;
  benchmark::RegisterBenchmark(name.c_str(),
                               [&](benchmark::State& state) {
                                 for (auto _ : state) {
                                   const auto start = Clock::now();
                                   for (long i = 0; i < batch; ++i) run();
                                   const double spent = nanoseconds(start);
                                   state.SetIterationTime(spent * 1e-9);
                                   samples.push_back(spent / static_cast<double>(batch));
                                 }
                               })
      ->UseManualTime()
      ->MinTime(seconds);
  Silent silent;
  benchmark::RunSpecifiedBenchmarks(&silent, "all");
  benchmark::ClearRegisteredBenchmarks();
  if (samples.empty()) throw std::runtime_error(name + ": Google Benchmark did not run it");
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  return {samples.front(), (samples[(n - 1) / 2] + samples[n / 2]) / 2};
}

}  // namespace posproof::bench
