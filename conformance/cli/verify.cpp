#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "conformance/cli/commands.hpp"
#include "conformance/laws.hpp"
#include "conformance/open.hpp"
#include "conformance/report.hpp"
#include "fixtures/core/fixture_file.hpp"
#include "reference/core/registry.hpp"

namespace posproof {
namespace {

struct Line {
  std::string implementation, grade, recipe = "exact", waivers, report, format = "text";
  std::vector<std::string> schemes, operations, cases;
  double timeout = 60;
  int laws = 0;
  std::uint64_t seed = LawOptions().seed;
};

bool is_law(const std::string& name) {
  static const std::vector<std::string> names = law_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Those that --case names, else all about what was selected when --laws asks for any.
LawOptions wanted_laws(const Line& line) {
  LawOptions laws;
  laws.seed = line.seed;
  if (line.laws > 0) laws.experiments = line.laws;
  for (const std::string& name : line.cases)
    if (is_law(name)) laws.names.push_back(name);
  if (line.cases.empty() && line.laws > 0) laws.names = laws_about(line.schemes, line.operations);
  return laws;
}

std::vector<Case> wanted_cases(const Line& line) {
  for (const std::string& scheme : line.schemes) find_scheme(scheme);
  for (const std::string& operation : line.operations) find_operation(operation);
  std::vector<Case> all = all_cases(), wanted;
  if (line.cases.empty()) wanted = all;
  for (const std::string& name : line.cases) {
    if (is_law(name)) continue;
    const auto found =
        std::find_if(all.begin(), all.end(), [&name](const Case& each) { return each.id == name; });
    if (found != all.end()) {
      wanted.push_back(*found);
    } else if (std::filesystem::exists(name)) {
      for (Case& each : read_cases(name)) wanted.push_back(std::move(each));
    } else {
      throw CallError("--case: '" + name + "' is no id of a case, name of a law or file");
    }
  }
  std::vector<Case> kept;
  for (Case& each : wanted) {
    const std::string scheme = scheme_of(find_operation(each.operation)).name;
    const auto selects = [](const std::vector<std::string>& names, const std::string& name) {
      return names.empty() || std::count(names.begin(), names.end(), name) > 0;
    };
    if (selects(line.schemes, scheme) && selects(line.operations, each.operation))
      kept.push_back(std::move(each));
  }
  return kept;
}

int run(const Line& line) {
  VerifyOptions options;
  options.command = line.implementation;
  if (!(line.timeout >= 0.001))
    throw CallError("--timeout: found " + std::to_string(line.timeout) + ", allowed is >= 0.001");
  if (!line.grade.empty() && line.recipe != "exact")
    throw CallError("--grade and --recipe exclude each other: a grade is distance from the truth");
  if (!line.report.empty()) {
    std::error_code error;
    std::filesystem::create_directories(line.report, error);
    if (error || !std::filesystem::is_directory(line.report))
      throw CallError("--report: " + line.report +
                      " cannot be made a folder: " + (error ? error.message() : "it is a file"));
  }
  if (!line.grade.empty()) options.demanded_grade = grade_from(line.grade);
  options.recipe = recipe_from(line.recipe);
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(line.timeout * 1000));
  if (!line.waivers.empty()) options.waivers = read_waivers(line.waivers);
  options.laws = wanted_laws(line);
  const std::vector<Case> cases = wanted_cases(line);
  const auto implementation = open_implementation(line.implementation);
  const bool on_terminal = isatty(STDERR_FILENO);
  if (on_terminal)
    options.progress = [](const char* what, std::size_t done, std::size_t total) {
      std::cerr << "\r" << what << " " << done << "/" << total << (done == total ? "\r\033[K" : "")
                << std::flush;
    };
  const Report report = verify(*implementation, cases, options);
  if (!line.report.empty()) write_report(report, cases, line.report);
  std::cout << (line.format == "json" ? report_json(report).dump(1) + "\n" : report_text(report));
  if (!line.report.empty() && line.format != "json")
    std::cout << "reports: " << line.report << "/report.json, " << line.report << "/junit.xml\n";
  std::cout.flush();
  return report.good() ? 0 : 1;
}

}  // namespace

Command add_verify(CLI::App& app) {
  auto line = std::make_shared<Line>();
  app.add_option("IMPLEMENTATION", line->implementation, "What to judge")->required();
  app.add_option("--scheme", line->schemes, "Only this scheme (may be repeated)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--operation", line->operations, "Only this operation (may be repeated)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
         "--case", line->cases,
         "Only this case: an id, a fixture file, a counterexample or the name of a law (may "
         "be repeated)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--grade", line->grade, "Demand this grade: P0, P1, P2 or P3");
  app.add_option("--recipe", line->recipe,
                 "Judge by another engine's rounding: hf_f32 or ggml_f32_chain");
  app.add_option("--laws", line->laws, "Also try each law on so many drawn inputs")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--seed", line->seed, "Which inputs are drawn")->capture_default_str();
  app.add_option("--waivers", line->waivers, "Known failures: a JSON file");
  app.add_option("--timeout", line->timeout, "Seconds for one case")
      ->check(CLI::Range(0.001, 86400.0));
  app.add_option("--report", line->report, "Write report.json, junit.xml and counterexamples here");
  app.add_option("--format", line->format, "text or json")->check(CLI::IsMember({"text", "json"}));
  return [line] { return run(*line); };
}

}  // namespace posproof
