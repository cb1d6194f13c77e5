#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "conformance/cli/commands.hpp"
#include "fixtures/core/files.hpp"
#include "optimized/bench/buffer.hpp"
#include "optimized/bench/children.hpp"
#include "optimized/bench/floors.hpp"
#include "optimized/bench/results.hpp"

namespace posproof {
namespace {

using namespace bench;

struct Line {
  std::string work, isa, json, picture, markdown;
  double seconds = 0.1;
  int rounds = 5;
  bool no_peers = false;
};

class Progress {
 public:
  void operator()(const std::string& what) const {
    if (is_shown_) std::cerr << "\r\033[K" << what << std::flush;
  }
  ~Progress() { (*this)(""); }

 private:
  bool is_shown_ = isatty(STDERR_FILENO);
};

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  return "unknown CPU";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%F", std::gmtime(&now));
  return text;
}

std::string compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

/// Whether a file could be written there, before minutes are spent on its content.
void check_writable(const std::string& option, const std::string& file) {
  if (file.empty()) return;
  const std::filesystem::path folder =
      std::filesystem::absolute(std::filesystem::path(file)).parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error) || access(folder.c_str(), W_OK) != 0)
    throw CallError(option + ": " + file + " cannot be written: its folder is not there or closed");
  if (std::filesystem::is_directory(file, error))
    throw CallError(option + ": " + file + " is a folder, allowed is a file");
}

Roofs roofs(double seconds) {
  constexpr std::size_t kMemory = std::size_t{64} << 20, kCache = std::size_t{512} << 10;
  const auto memory = buffer<unsigned char>(kMemory);
  const auto best = [&](double bytes, const std::function<void(Stores)>& run) {
    double least = HUGE_VAL;
    for (const Stores stores : {Stores::plain, Stores::streamed, Stores::ahead})
      for (int round = 0; round < 2; ++round)
        least = std::min(least, time(
                                    "roof", [&] { run(stores); }, seconds)
                                    .min_ns);
    return bytes / least;
  };
  float keep[16] = {1};
  double operations = 0;
  const double nanoseconds = time(
                                 "roof", [&] { operations = multiply_add(20000, keep); }, seconds)
                                 .min_ns;
  return {best(2.0 * kMemory, [&](Stores s) { change(memory.get(), kMemory, s); }),
          best(kMemory, [&](Stores s) { fill(memory.get(), kMemory, s); }),
          best(2.0 * kCache, [&](Stores s) { change(memory.get(), kCache, s); }),
          operations / nanoseconds};
}

/// Runs it once: a kernel that does nothing would be the fastest.
void check_output(const Work& work, const Prepared& prepared) {
  const std::size_t size = std::min<std::size_t>(prepared.output_bytes, 4096);
  const unsigned char* end = prepared.output + prepared.output_bytes;
  const std::vector<unsigned char> before(end - size, end);
  prepared.ours();
  if (std::equal(before.begin(), before.end(), end - size))
    throw std::runtime_error(work.name + ": the kernel wrote nothing");
}

Result measure(const Work& work, optimized::Isa isa, const Line& line,
               const std::vector<std::unique_ptr<Peer>>& peers, const Progress& progress) {
  Result result{work, {"posproof", {}}, {}, {}};
  const Prepared prepared = work.prepare(isa);
  check_output(work, prepared);
  for (const Program& floor : prepared.floors) result.floors.push_back({floor.name, {}});
  for (const auto& peer : peers)
    if (peer->has(work.name)) result.peers.push_back({peer->name(), {}});
  for (int round = 0; round < line.rounds; ++round) {
    const auto turn = [&](const std::string& who) {
      progress(fmt::format("{}, round {} of {}: {}", work.name, round + 1, line.rounds, who));
    };
    for (std::size_t i = 0; i < prepared.floors.size(); ++i) {
      turn(prepared.floors[i].name);
      result.floors[i].rounds.push_back(
          time(work.name + "/floor", prepared.floors[i].run, line.seconds));
    }
    turn("posproof");
    result.ours.rounds.push_back(time(work.name, prepared.ours, line.seconds));
    for (Measured& measured : result.peers)
      for (const auto& peer : peers)
        if (peer->name() == measured.name && peer->has(work.name)) {
          turn(peer->name());
          if (const auto timing = peer->time(work.name, line.seconds))
            measured.rounds.push_back(*timing);
        }
  }
  std::erase_if(result.peers, [](const Measured& each) { return each.rounds.empty(); });
  return result;
}

int run(const Line& line) {
  check_writable("--json", line.json);
  check_writable("--picture", line.picture);
  check_writable("--markdown", line.markdown);
  optimized::Isa isa;
  try {
    isa = line.isa.empty() ? optimized::default_isa() : optimized::isa_from(line.isa);
  } catch (const std::invalid_argument& error) {
    throw CallError(std::string("--isa: ") + error.what());
  }
  std::vector<Work> wanted = works();
  std::erase_if(wanted,
                [&](const Work& work) { return work.name.find(line.work) == std::string::npos; });
  if (wanted.empty()) {
    std::cerr << "posproof: --work: no work has '" << line.work << "' in its name:";
    for (const Work& work : works()) std::cerr << " " << work.name;
    std::cerr << "\n";
    return 1;
  }
  Run all{today(),
          cpu_name(),
          std::string(optimized::name(isa)),
          compiler(),
          POSPROOF_VERSION,
          line.rounds,
          line.seconds,
          {},
          {},
          {}};
  const Progress progress;
  progress("starting the peers");
  std::vector<std::unique_ptr<Peer>> peers;
  if (!line.no_peers) peers = start_peers();
  progress("measuring the machine");
  all.roofs = roofs(line.seconds);
  try {
    for (const Work& work : wanted) {
      all.results.push_back(measure(work, isa, line, peers, progress));
      progress("");
      std::cout << text(all.results.back()) << std::flush;
    }
  } catch (const std::runtime_error& error) {
    std::cerr << "posproof: " << error.what() << "\n";
    return 1;
  }
  for (const auto& peer : peers) {
    all.peers.push_back({peer->name(), peer->version(), peer->why()});
    if (!peer->why().empty())
      std::cout << "not run: " << peer->name() << ": " << peer->why() << "\n";
  }
  if (line.no_peers) std::cout << "not run: the peers (--no-peers)\n";
  std::cout
      << "Ratios are of the least times within this run; a time depends on the machine, a miss "
         "is no error.\n";
  if (!line.json.empty()) write_aside(line.json, json(all).dump(1) + "\n");
  if (!line.picture.empty()) write_aside(line.picture, picture(all));
  if (!line.markdown.empty()) {
    const auto folder = std::filesystem::absolute(line.markdown).parent_path();
    write_aside(
        line.markdown,
        markdown(
            all,
            line.picture.empty()
                ? ""
                : std::filesystem::absolute(line.picture).lexically_relative(folder).string()));
  }
  return 0;
}

}  // namespace

Command add_bench(CLI::App& app) {
  auto line = std::make_shared<Line>();
  app.footer(
      "Peers are those of optimized/bench/peers/peers.json, or of the file that the environment\n"
      "variable POSPROOF_PEERS names. Exit status: 0 all ran, whatever the ratios; 1 nothing was\n"
      "selected or a kernel could not run; 2 the call is wrong.");
  app.add_option("--work", line->work, "Only works with this in their name");
  app.add_option("--seconds", line->seconds, "A turn of one program")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  app.add_option("--rounds", line->rounds, "Turns of every program")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--no-peers", line->no_peers, "Time the kernels and their floors alone");
  app.add_option("--isa", line->isa, "scalar, avx2 or avx512; the fastest by default");
  app.add_option("--json", line->json, "Write every time to this file");
  app.add_option("--picture", line->picture, "Draw distances from the floor and a roofline (SVG)");
  app.add_option("--markdown", line->markdown, "Write docs/performance.md");
  return [line] { return run(*line); };
}

}  // namespace posproof
