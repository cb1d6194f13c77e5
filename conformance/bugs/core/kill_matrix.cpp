#include "conformance/bugs/core/kill_matrix.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "conformance/bugs/core/right.hpp"
#include "reference/core/registry.hpp"

namespace posproof::bugs {
namespace {

using nlohmann::json;

/// One row of the table: a model or a right variation.
struct Row {
  std::string name;
  std::vector<std::string> operations;
  std::function<std::unique_ptr<Implementation>()> open;
};

std::string name_of(const BugModel& model) {
  return model.variant.empty() ? model.kind : model.kind + ": " + model.variant;
}

json to_json(const Kills& kills) {
  return {{"name", kills.name},
          {"cases", kills.cases},
          {"laws", kills.laws},
          {"llama_cpp", kills.by_llama_cpp}};
}

Kills kills_from(const json& stored) {
  return {stored.at("name"), stored.at("cases"), stored.at("laws"), stored.at("llama_cpp")};
}

std::string read_to_end(int descriptor) {
  std::string text;
  char buffer[65536];
  for (ssize_t count; (count = read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  return text;
}

/// Rows worker, worker + workers, …, as a JSON array on the pipe.
[[noreturn]] void work(const Trial& trial, const std::vector<Row>& rows, std::size_t worker,
                       std::size_t workers, int pipe) {
  int status = 0;
  try {
    json all = json::array();
    for (std::size_t i = worker; i < rows.size(); i += workers) {
      const auto implementation = rows[i].open();
      implementation->start(std::chrono::seconds(10));
      all.push_back(to_json(trial.of(rows[i].name, *implementation, rows[i].operations)));
    }
    const std::string text = all.dump();
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t count = write(pipe, text.data() + done, text.size() - done);
      if (count <= 0) throw std::runtime_error("the pipe has closed");
      done += static_cast<std::size_t>(count);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    status = 1;
  }
  _exit(status);
}

std::vector<Kills> try_all(const Trial& trial, const std::vector<Row>& rows) {
  const std::size_t workers = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::pair<pid_t, int>> children;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("no process");
    if (child == 0) work(trial, rows, worker, workers, ends[1]);
    close(ends[1]);
    children.emplace_back(child, ends[0]);
  }
  std::vector<Kills> kills(rows.size());
  bool failed = false;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    const json answered = json::parse(read_to_end(children[worker].second), nullptr, false);
    int status = 0;
    close(children[worker].second);
    waitpid(children[worker].first, &status, 0);
    failed = failed || status != 0 || !answered.is_array();
    if (failed) continue;
    for (std::size_t n = 0; n < answered.size(); ++n)
      kills[worker + n * workers] = kills_from(answered[n]);
  }
  if (failed) throw std::runtime_error("a process of the kill matrix ended early");
  return kills;
}

std::vector<Row> rows_of_models() {
  std::vector<Row> rows;
  for (const BugModel& model : all_models())
    rows.push_back({name_of(model), affected(model), [model] { return implementation_of(model); }});
  return rows;
}

std::vector<Row> rows_of_right_variations() {
  std::vector<Row> rows;
  for (const RightVariation& variation : right_variations())
    rows.push_back({variation.name, variation.operations,
                    [variation] { return implementation_of(variation); }});
  return rows;
}

std::size_t of_scheme(const Kills& kills, const std::vector<Case>& cases,
                      const std::string& scheme) {
  return static_cast<std::size_t>(std::count_if(cases.begin(), cases.end(), [&](const Case& asked) {
    return kills.cases.count(asked.id) && scheme_of(find_operation(asked.operation)).name == scheme;
  }));
}

std::size_t of_laws(const Kills& kills, bool (*counts)(const std::string&)) {
  return static_cast<std::size_t>(std::count_if(kills.laws.begin(), kills.laws.end(), counts));
}

bool is_metamorphic(const std::string& law) { return !asks_for_the_truth(law); }
bool is_classical(const std::string& law) { return classical_laws().count(law) > 0; }

std::string count_or_dash(std::size_t count) { return count ? std::to_string(count) : "–"; }

}  // namespace

std::vector<std::string> KillMatrix::faults() const {
  std::vector<std::string> found;
  std::set<std::string> useful;
  for (const Kills& model : models) {
    useful.insert(model.cases.begin(), model.cases.end());
    if (model.cases.empty()) found.push_back(model.name + " survives every case");
    if (model.cases.empty() && model.laws.empty())
      found.push_back(model.name + " survives everything");
  }
  for (const Kills& variation : right) {
    for (const std::string& id : variation.cases)
      found.push_back("case " + id + " kills what is right: " + variation.name);
    for (const std::string& law : variation.laws)
      found.push_back("law " + law + " kills what is right: " + variation.name);
  }
  for (const Case& asked : cases)
    if (!useful.count(asked.id) && asked.flags.empty())
      found.push_back("case " + asked.id + " kills nothing and carries no flag that says why (" +
                      asked.comment + ")");
  return found;
}

json KillMatrix::json() const {
  std::map<std::string, std::vector<std::string>> of_case, of_law;
  for (const Case& asked : cases) of_case[asked.id];
  for (const Kills& model : models) {
    for (const std::string& id : model.cases) of_case[id].push_back(model.name);
    for (const std::string& law : model.laws) of_law[law].push_back(model.name);
  }
  return {{"schema", "posproof-kills-1"}, {"cases", of_case}, {"laws", of_law}};
}

std::string KillMatrix::markdown() const {
  std::vector<std::string> schemes_asked;
  for (const Scheme* scheme : schemes())
    if (std::any_of(cases.begin(), cases.end(), [&](const Case& asked) {
          return scheme_of(find_operation(asked.operation)).name == scheme->name;
        }))
      schemes_asked.push_back(scheme->name);

  std::size_t by_laws = 0, by_metamorphic = 0, of_rope = 0, by_classical = 0, by_llama_cpp = 0;
  std::set<std::string> kinds;
  std::string rows;
  for (const Kills& model : models) {
    kinds.insert(model.name.substr(0, model.name.find(':')));
    by_laws += !model.laws.empty();
    by_metamorphic += of_laws(model, is_metamorphic) > 0;
    const bool is_of_rope = model.name.rfind("K-R", 0) == 0;
    of_rope += is_of_rope;
    by_classical += is_of_rope && of_laws(model, is_classical) > 0;
    by_llama_cpp += is_of_rope && model.by_llama_cpp;
    rows += "| " + model.name + " |";
    for (const std::string& scheme : schemes_asked)
      rows += " " + count_or_dash(of_scheme(model, cases, scheme)) + " |";
    rows += fmt::format(" {} | {} |", count_or_dash(of_laws(model, is_metamorphic)),
                        count_or_dash(of_laws(model, asks_for_the_truth)));
    rows += is_of_rope ? fmt::format(" {} | {} |\n", count_or_dash(of_laws(model, is_classical)),
                                     model.by_llama_cpp ? "yes" : "–")
                       : " | |\n";
  }

  std::string text =
      "# Kill matrix\n\n"
      "Would the tests notice? Every known mistake that today's operations can show, run as an\n"
      "implementation, against every case and every law. Written by `kill_matrix write`; the test\n"
      "`kill_matrix` fails when it is out of date, when a mistake survives, when a case notices\n"
      "nothing and has no flag that says why it is kept, and when something right is rejected.\n\n";
  text += fmt::format(
      "{} mistakes of {} kinds: {} noticed by cases, {} by laws ({} without asking for the "
      "truth).\n"
      "{} right variations: none rejected. Of the {} mistakes in rope, its four classical laws "
      "(norm,\n"
      "relative offset, identity at 0, distinct positions) notice {}, llama.cpp's\n"
      "R(−67)·R(100+i) = R(33+i) notices {}.\n\n",
      models.size(), kinds.size(),
      std::count_if(models.begin(), models.end(),
                    [](const Kills& model) { return !model.cases.empty(); }),
      by_laws, by_metamorphic, right.size(), of_rope, by_classical, by_llama_cpp);
  text += "Numbers are cases by scheme and laws that notice.\n\n| mistake |";
  std::string line = "|---|";
  for (const std::string& scheme : schemes_asked) {
    text += " " + scheme + " |";
    line += "--:|";
  }
  text += " laws | with the truth | classical | llama.cpp |\n" + line + "--:|--:|--:|---|\n" + rows;
  text += "\n## Right variations\n\n";
  for (const Kills& variation : right) text += "- " + variation.name + "\n";
  return text;
}

KillMatrix kill_matrix() {
  const Trial trial(all_cases());
  KillMatrix matrix;
  matrix.models = try_all(trial, rows_of_models());
  matrix.right = try_all(trial, rows_of_right_variations());
  matrix.cases = trial.cases();
  return matrix;
}

}  // namespace posproof::bugs
