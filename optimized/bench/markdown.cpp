#include <fmt/format.h>

#include <algorithm>

#include "optimized/bench/results.hpp"

namespace posproof::bench {
namespace {

/// What stands above all: the exact table beside the fastest one that is not exact.
std::string headline(const Run& run) {
  for (const Result& result : run.results) {
    if (result.work.name != "table_f32_memory") continue;
    std::string text = fmt::format(
        "**A correctly rounded cos/sin table takes {} of the time of the fastest fill of its "
        "memory",
        number_text(result.to_floor()));
    if (const Measured* peer = result.best_peer())
      text += fmt::format(", and {} of the time of the fastest peer ({}), which is not exact",
                          number_text(result.ours.min_ns() / peer->min_ns()), peer->name);
    return text + ".** Rounding correctly costs nothing where memory is the limit.\n\n";
  }
  return "";
}

std::string counted(const Run& run) {
  std::size_t met = 0, missed = 0, not_run = 0;
  for (const Result& result : run.results)
    for (const Verdict& verdict : result.verdicts())
      ++(!verdict.ratio ? not_run : verdict.is_met() ? met : missed);
  return fmt::format("Required ratios: {} met, {} not met, {} not run.\n\n", met, missed, not_run);
}

}  // namespace

std::string markdown(const Run& run, const std::string& picture) {
  std::string page = "# Performance\n\n" + headline(run);
  page += fmt::format(
      "Measured on {} ({}), one thread, kernels on {}, posproof {} compiled by {}. Written by "
      "`posproof bench --markdown FILE`: not edited by hand.\n\n",
      run.date, run.cpu, run.isa, run.version, run.compiler);
  page += counted(run);
  if (!picture.empty())
    page += fmt::format("![Time of every kernel and peer over the floor, and a roofline]({})\n\n",
                        picture);
  page += "## Kernels\n\n";
  page += "| work | shape | time | GB/s | of the floor | floor | best peer takes |\n";
  page += "|---|---|--:|--:|--:|---|---|\n";
  for (const Result& result : run.results) {
    std::string best = "none";
    if (const Measured* peer = result.best_peer())
      best =
          fmt::format("{} × ({})", number_text(peer->min_ns() / result.ours.min_ns()), peer->name);
    page +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", result.work.name, result.work.shape,
                    time_text(result.ours.min_ns()), number_text(result.gigabytes_per_second()),
                    number_text(result.to_floor()), result.floor().name, best);
  }
  page += "\n## Required ratios\n\n";
  page += "Speed is their time over ours, time is ours over theirs.\n\n";
  page += "| work | ratio | required | measured | |\n|---|---|--:|--:|---|\n";
  for (const Result& result : run.results)
    for (const Verdict& verdict : result.verdicts())
      page += fmt::format("| {} | {} of {} | {} {} | {} | {} |\n", result.work.name,
                          verdict.required.sense == Required::Sense::speed ? "speed" : "time",
                          verdict.found, verdict.relation(), verdict.required.limit,
                          verdict.ratio ? number_text(*verdict.ratio) : "",
                          verdict.ratio ? verdict.is_met() ? "met" : "**not met**" : "not run");
  page += "\n## Peers\n\n| peer | version | |\n|---|---|---|\n";
  for (const PeerState& peer : run.peers)
    page += fmt::format("| {} | {} | {} |\n", peer.name, peer.version,
                        peer.why.empty() ? "ran" : "not run: " + peer.why);
  page += "\n## Every time\n\nMinimum and median, in the order of the run.\n\n";
  page += "| work | who | minimum | median |\n|---|---|--:|--:|\n";
  for (const Result& result : run.results) {
    const auto row = [&](const std::string& who, const Measured& measured) {
      page += fmt::format("| {} | {} | {} | {} |\n", result.work.name, who,
                          time_text(measured.min_ns()), time_text(measured.median_ns()));
    };
    for (const Measured& floor : result.floors) row(floor.name, floor);
    row("posproof", result.ours);
    for (const Measured& peer : result.peers) row(peer.name, peer);
  }
  page += fmt::format(
      "\n## How it is measured\n\n"
      "- One run: for each work the floors, our kernel and every peer take turns, {} times, {} s a "
      "turn, in batches of 50 µs or more. A ratio is one of the least times within the run; "
      "absolute "
      "times change with the machine and its neighbours.\n"
      "- A floor is the cheapest program that moves the same bytes: a fill, a read-change-write in "
      "place, a copy, a sum of two, with plain, non-temporal and prefetched accesses; the fastest "
      "counts, unless the required ratio names one. Floors use the CPU's widest vectors, whatever "
      "the kernel uses.\n"
      "- `memory` is 64 MiB, `cache` is 1 MiB (tables) or 64 tokens (rope), `row` one position. "
      "The "
      "time of a table in memory has its set-up in it; `cache` and `row` use one made before, as "
      "the "
      "peers do.\n"
      "- Buffers lie in huge pages and are warm. Peers run in children of their own, one thread, "
      "with an allocator that gives back no pages, OpenBLAS and PyTorch told of AVX-512, and each "
      "checks its results before it is timed. PyTorch takes the fastest of the ways that its "
      "operators can say. `running product` is ggml's rope cache with glibc's functions.\n"
      "- Bytes are those read and written once; GB/s is bytes over time. Roofs: {} GB/s "
      "read-change-"
      "write and {} GB/s fill of memory, {} GB/s read-change-write in L2, {} GFLOP/s fused "
      "multiply-add.\n\n"
      "Again: `cmake --build --preset release`, `optimized/bench/peers/install`, "
      "`implementations/onnxruntime/install`, Debian's `python3-torch` and `libsleef-dev`, then\n\n"
      "    build/release/posproof bench --json reports/bench.json --picture docs/performance.svg "
      "--markdown docs/performance.md\n",
      run.rounds, run.seconds, number_text(run.roofs.memory_gbps), number_text(run.roofs.fill_gbps),
      number_text(run.roofs.cache_gbps), number_text(run.roofs.gflops));
  return page;
}

}  // namespace posproof::bench
