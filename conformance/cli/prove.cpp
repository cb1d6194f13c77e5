#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iostream>

#include "conformance/cli/commands.hpp"
#include "conformance/proof.hpp"
#include "fixtures/core/files.hpp"

namespace posproof {
namespace {

using Clock = std::chrono::steady_clock;

struct Line {
  std::string shard = "1/1", state, isa;
  std::uint64_t sample = 0;
};

ProofPlan plan_of(const Line& line) {
  std::uint64_t index, count;
  int used = 0;
  if (std::sscanf(line.shard.c_str(), "%lu/%lu%n", &index, &count, &used) != 2 ||
      static_cast<std::size_t>(used) != line.shard.size())
    throw CallError("--shard: found '" + line.shard + "', allowed is i/n, from 1/n to n/n");
  try {
    return ProofPlan::shard(index, count, line.sample);
  } catch (const std::invalid_argument& error) {
    throw CallError(std::string("--") + error.what());
  }
}

/// What a state file belongs to: another's is not continued.
nlohmann::json identity(const Line& line, optimized::Isa isa) {
  return {{"posproof", POSPROOF_VERSION},
          {"isa", optimized::name(isa)},
          {"shard", line.shard},
          {"sample", line.sample}};
}

ProofState resumed(const Line& line, const nlohmann::json& identity) {
  if (line.state.empty() || !std::filesystem::exists(line.state)) return {};
  const auto json = nlohmann::json::parse(read_file(line.state), nullptr, false);
  if (!json.is_object()) throw CallError(line.state + ": is not a JSON object");
  for (const auto& [key, value] : identity.items())
    if (!json.contains(key) || json.at(key) != value)
      throw CallError(line.state + ": " + key + ": found " + json.value(key, nlohmann::json()).dump() +
                      ", this run has " + value.dump());
  try {
    return proof_state_from(json);
  } catch (const std::invalid_argument& error) {
    throw CallError(line.state + ": " + error.what());
  }
}

void show_progress(const ProofState& state, std::uint64_t done_before, std::uint64_t total,
                   double seconds) {
  const double left = seconds * static_cast<double>(total - state.done) /
                      static_cast<double>(state.done - done_before);
  constexpr std::uint64_t kWidth = 40;
  const std::uint64_t filled = kWidth * state.done / total;
  std::cerr << fmt::format("\r[{:#<{}}{:.<{}}] {:5.1f} % {:.3g} values, {} undecided, {} wrong, {:.0f} s left ",
                           "", filled, "", kWidth - filled,
                           100 * static_cast<double>(state.done) / static_cast<double>(total),
                           static_cast<double>(state.values), state.undecided, state.wrong, left)
            << std::flush;
}

int run(const Line& line) {
  const ProofPlan plan = plan_of(line);
  optimized::Isa isa;
  try {
    isa = line.isa.empty() ? optimized::default_isa() : optimized::isa_from(line.isa);
  } catch (const std::invalid_argument& error) {
    throw CallError(std::string("--") + error.what());
  }
  const nlohmann::json whose = identity(line, isa);
  const ProofState before = resumed(line, whose);
  Proof proof(plan, before, isa);
  const auto save = [&] {
    if (line.state.empty()) return;
    nlohmann::json json = whose;
    json.update(to_json(proof.state()));
    write_aside(line.state, json.dump(1) + "\n");
  };
  save();
  const bool on_terminal = isatty(STDERR_FILENO);
  const std::uint64_t total = plan.last - plan.first;
  const auto start = Clock::now();
  auto shown = start, saved = start;
  while (!proof.is_finished()) {
    proof.next_chunk();
    const auto now = Clock::now();
    if (on_terminal && now - shown > std::chrono::milliseconds(200)) {
      show_progress(proof.state(), before.done, total,
                    std::chrono::duration<double>(now - start).count());
      shown = now;
    }
    if (now - saved > std::chrono::seconds(5)) {
      save();
      saved = Clock::now();
    }
  }
  save();
  if (on_terminal) std::cerr << "\r\033[K";
  const ProofState& state = proof.state();
  for (const std::string& example : state.examples) std::cout << "WRONG " << example << "\n";
  std::cout << fmt::format(
      "{} values of f32 cos/sin tables on {}, shard {}: {} undecided and {} drawn ones compared "
      "with the reference, {} wrong, in {:.1f} s\n",
      state.values, optimized::name(isa), line.shard, state.undecided, state.drawn, state.wrong,
      std::chrono::duration<double>(Clock::now() - start).count());
  return state.wrong == 0 ? 0 : 1;
}

}  // namespace

Command add_prove(CLI::App& app) {
  auto line = std::make_shared<Line>();
  app.add_option("--shard", line->shard, "Only part i of n, as 3/8")->capture_default_str();
  app.add_option("--sample", line->sample, "Only so many of the 32768 chunks of each table")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{32768}));
  app.add_option("--state", line->state,
                 "Where what is done is kept, a JSON file; another run goes on from it");
  app.add_option("--isa", line->isa, "scalar, avx2 or avx512; the fastest when not given");
  app.footer(
      "Looks at every value of the cos/sin tables in f32 for rope_theta 1e4, 1.5e5, 5e5, 1e6, 1e7,\n"
      "rotary_dim 256, 96, 80 and positions 0 to 2^31 - 1. Whatever the rounding test could leave\n"
      "undecided is compared with the reference (docs/error-model.md, \"The proof\").");
  return [line] { return run(*line); };
}

}  // namespace posproof
