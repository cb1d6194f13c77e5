#include "optimized/bench/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace posproof::bench {
namespace {

bool is_faster(const Measured& a, const Measured& b) { return a.min_ns() < b.min_ns(); }

nlohmann::json json(const Measured& measured) {
  return {{"min_ns", measured.min_ns()}, {"median_ns", measured.median_ns()}};
}

nlohmann::json json(const std::vector<Measured>& all) {
  nlohmann::json by_name = nlohmann::json::object();
  for (const Measured& each : all) by_name[each.name] = json(each);
  return by_name;
}

}  // namespace

double Measured::min_ns() const {
  return std::min_element(rounds.begin(), rounds.end(),
                          [](const Timing& a, const Timing& b) { return a.min_ns < b.min_ns; })
      ->min_ns;
}

double Measured::median_ns() const {
  std::vector<double> medians;
  for (const Timing& round : rounds) medians.push_back(round.median_ns);
  std::sort(medians.begin(), medians.end());
  const std::size_t n = medians.size();
  return (medians[(n - 1) / 2] + medians[n / 2]) / 2;
}

bool Verdict::is_met() const {
  if (!ratio) return false;
  return required.sense == Required::Sense::speed ? *ratio >= required.limit
                                                  : *ratio <= required.limit;
}

const Measured& Result::floor() const {
  return *std::min_element(floors.begin(), floors.end(), is_faster);
}

const Measured* Result::best_peer() const {
  return peers.empty() ? nullptr : &*std::min_element(peers.begin(), peers.end(), is_faster);
}

std::vector<Verdict> Result::verdicts() const {
  std::vector<Verdict> all;
  for (const Required& required : work.required) {
    const Measured* against = nullptr;
    if (required.against == "floor") against = &floor();
    if (required.against == "best peer") against = best_peer();
    for (const auto* group : {&floors, &peers})
      for (const Measured& each : *group)
        if (each.name == required.against) against = &each;
    Verdict verdict{required, against != nullptr ? against->name : required.against, {}};
    if (against != nullptr)
      verdict.ratio = required.sense == Required::Sense::speed ? against->min_ns() / ours.min_ns()
                                                               : ours.min_ns() / against->min_ns();
    all.push_back(verdict);
  }
  return all;
}

std::string number_text(double value) {
  const int whole = value < 1 ? 0 : static_cast<int>(std::log10(value));
  return fmt::format("{:.{}f}", value, value < 0.1 ? 4 : value < 1 ? 3 : std::max(0, 2 - whole));
}

std::string time_text(double nanoseconds) {
  if (nanoseconds < 1e3) return number_text(nanoseconds) + " ns";
  if (nanoseconds < 1e6) return number_text(nanoseconds / 1e3) + " µs";
  return number_text(nanoseconds / 1e6) + " ms";
}

std::string text(const Result& result) {
  std::string lines =
      fmt::format("{:<30} {:>9}  {:>5} GB/s  {:>5} of {}", result.work.name,
                  time_text(result.ours.min_ns()), number_text(result.gigabytes_per_second()),
                  number_text(result.to_floor()), result.floor().name);
  if (const Measured* peer = result.best_peer())
    lines += fmt::format("  best peer {} {} ×", peer->name,
                         number_text(peer->min_ns() / result.ours.min_ns()));
  lines += "\n";
  for (const Verdict& verdict : result.verdicts()) {
    const bool is_speed = verdict.required.sense == Required::Sense::speed;
    lines += fmt::format("  {:<8} {} {}, required {} {}\n",
                         verdict.ratio ? verdict.is_met() ? "met" : "not met" : "not run",
                         is_speed ? "speed of" : "time of", verdict.found, verdict.relation(),
                         verdict.required.limit);
    if (verdict.ratio) {
      lines.pop_back();
      lines += fmt::format(": {}\n", number_text(*verdict.ratio));
    }
  }
  return lines;
}

nlohmann::json json(const Run& run) {
  nlohmann::json peers = nlohmann::json::array(), results = nlohmann::json::array();
  for (const PeerState& peer : run.peers) {
    nlohmann::json state = {
        {"name", peer.name}, {"version", peer.version}, {"ran", peer.why.empty()}};
    if (!peer.why.empty()) state["why"] = peer.why;
    peers.push_back(state);
  }
  for (const Result& result : run.results) {
    nlohmann::json required = nlohmann::json::array();
    for (const Verdict& verdict : result.verdicts()) {
      const bool is_speed = verdict.required.sense == Required::Sense::speed;
      required.push_back(
          {{"against", verdict.required.against},
           {"ratio_is", is_speed ? "their time / ours, at least" : "our time / theirs, at most"},
           {"limit", verdict.required.limit},
           {"ratio", verdict.ratio ? nlohmann::json(*verdict.ratio) : nlohmann::json()},
           {"met", verdict.ratio ? nlohmann::json(verdict.is_met()) : nlohmann::json()}});
    }
    nlohmann::json entry = {{"work", result.work.name},      {"shape", result.work.shape},
                            {"bytes", result.work.bytes},    {"ours", json(result.ours)},
                            {"floors", json(result.floors)}, {"peers", json(result.peers)},
                            {"required", required}};
    if (result.work.operations > 0) entry["flops"] = result.work.operations;
    results.push_back(entry);
  }
  return {{"date", run.date},
          {"cpu", run.cpu},
          {"isa", run.isa},
          {"compiler", run.compiler},
          {"posproof", run.version},
          {"rounds", run.rounds},
          {"seconds", run.seconds},
          {"roofs",
           {{"memory_gbps", run.roofs.memory_gbps},
            {"fill_gbps", run.roofs.fill_gbps},
            {"cache_gbps", run.roofs.cache_gbps},
            {"gflops", run.roofs.gflops}}},
          {"peers", peers},
          {"works", results}};
}

}  // namespace posproof::bench
