#include <fmt/format.h>

#include <regex>

#include "conformance/laws.hpp"
#include "conformance/report.hpp"
#include "fixtures/core/files.hpp"
#include "fixtures/core/tensor_json.hpp"

namespace posproof {
namespace {

using nlohmann::json;

json number_or_text(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

json optional_grade(const std::optional<Grade>& grade, bool has_phase) {
  return grade ? json(name(*grade, has_phase)) : json(nullptr);
}

json result_json(const Report& report, const Result& result) {
  json entry{{"case", result.case_id},
             {"operation", result.operation},
             {"verdict", name(result.verdict)},
             {"grade", optional_grade(result.grade, result.has_phase)},
             {"message", result.message},
             {"worst", nullptr},
             {"reproduce", report.reproduce(result.case_id)}};
  if (result.worst)
    entry["worst"] = {{"output", result.worst->output},
                      {"index", result.worst->index},
                      {"got", number_or_text(result.worst->got)},
                      {"expected", number_or_text(result.worst->expected)},
                      {"error", number_or_text(result.worst->error)},
                      {"bound", number_or_text(result.worst->bound)}};
  return entry;
}

std::string xml(std::string text) {
  // XML 1.0 has no U+FFFE and U+FFFF.
  for (const char* outside : {"\xef\xbf\xbe", "\xef\xbf\xbf"})
    for (std::size_t at; (at = text.find(outside)) != std::string::npos;) text.replace(at, 3, "?");
  std::string escaped;
  for (char c : text) switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        // Nor other control characters.
        escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  return escaped;
}

json law_json(const Report& report, const LawResult& law) {
  json entry{{"law", law.law},
             {"verdict", name(law.verdict)},
             {"tests", law.tests},
             {"message", law.message},
             {"counterexample", nullptr},
             {"reproduce", report.reproduce(law)}};
  if (is_good(law.verdict)) return entry;
  entry["counterexample"] = json::array();
  for (const Request& request : law.counterexample)
    entry["counterexample"].push_back({{"operation", request.operation},
                                       {"parameters", request.parameters},
                                       {"inputs", to_json(request.inputs)}});
  return entry;
}

bool is_failure(Verdict verdict) {
  return verdict == Verdict::fail || verdict == Verdict::convention;
}
bool is_error(Verdict verdict) {
  return verdict == Verdict::error || verdict == Verdict::crash || verdict == Verdict::timeout;
}
bool is_skipped(Verdict verdict) {
  return verdict == Verdict::unsupported || verdict == Verdict::waived;
}

/// What one test case of JUnit says.
struct JunitCase {
  std::string suite, name, message, reproduce;
  Verdict verdict;
};

std::string junit_case(const JunitCase& tested) {
  std::string text = fmt::format("    <testcase classname=\"{}\" name=\"{}\"", xml(tested.suite),
                                 xml(tested.name));
  const bool skipped = is_skipped(tested.verdict);
  const char* element = is_failure(tested.verdict) ? "failure"
                        : is_error(tested.verdict) ? "error"
                        : skipped                  ? "skipped"
                                                   : nullptr;
  if (!element) return text + "/>\n";
  return text + fmt::format(">\n      <{0} message=\"{1}\"{2}>{3}</{0}>\n    </testcase>\n",
                            element, xml(tested.message),
                            skipped ? "" : fmt::format(" type=\"{}\"", name(tested.verdict)),
                            skipped ? "" : xml(tested.reproduce));
}

}  // namespace

json report_json(const Report& report) {
  json summary = json::object();
  for (int verdict = 0; verdict < kVerdictCount; ++verdict)
    summary[std::string(name(static_cast<Verdict>(verdict)))] =
        report.count(static_cast<Verdict>(verdict));
  json grade = json::object(), grades = json::object(), recipe = json::object(),
       exceptions = json::object();
  for (const auto& [operation, of_type] : report.grades) {
    const bool has_phase = report.has_phase.at(operation);
    std::optional<Grade> worst;
    bool failed = false;
    for (const auto& [dtype, each] : of_type) {
      grades[operation][dtype] = optional_grade(each, has_phase);
      failed = failed || !each;
      if (each) worst = worst ? std::max(*worst, *each) : each;
    }
    grade[operation] = optional_grade(failed ? std::nullopt : worst, has_phase);
  }
  for (const auto& [operation, followed] : report.recipes) {
    recipe[operation] = name(followed.recipe);
    if (!followed.exceptions.empty()) exceptions[operation] = followed.exceptions;
  }
  json results = json::array(), laws = json::array(), diagnosis = json::array(),
       waivers = json::array();
  for (const Result& result : report.results) results.push_back(result_json(report, result));
  for (const LawResult& law : report.laws) laws.push_back(law_json(report, law));
  for (const Diagnosis& d : report.diagnosis)
    diagnosis.push_back({{"kind", d.kind},
                         {"title", d.title},
                         {"parameter", d.parameter},
                         {"declared", d.declared},
                         {"actual", d.actual},
                         {"evidence", d.evidence},
                         {"explains", d.explains},
                         {"of", d.of}});
  for (const Waiver& waiver : report.unmatched_waivers)
    waivers.push_back({{waiver.case_id.empty() ? "kind" : "case",
                        waiver.case_id.empty() ? waiver.kind : waiver.case_id},
                       {"reason", waiver.reason}});
  const Description& who = report.implementation;
  return {
      {"posproof", POSPROOF_VERSION},
      {"implementation",
       {{"name", who.name.empty() ? report.command : who.name},
        {"version", who.version},
        {"language", who.language}}},
      {"start_failure", report.start_failure.empty() ? json(nullptr) : json(report.start_failure)},
      {"notes", report.notes},
      {"summary", summary},
      {"grade", grade},
      {"grades", grades},
      {"recipe", recipe},
      {"recipe_exceptions", exceptions},
      {"results", results},
      {"laws", laws},
      {"diagnosis", diagnosis},
      {"unmatched_waivers", waivers}};
}

std::string report_junit(const Report& report) {
  std::map<std::string, std::vector<JunitCase>> suites;
  for (const Result& result : report.results) {
    std::string message = result.message;
    if (result.worst) message += (message.empty() ? "" : " ") + to_string(*result.worst);
    suites[result.operation].push_back({result.operation, result.case_id, message,
                                        report.reproduce(result.case_id), result.verdict});
  }
  for (const LawResult& law : report.laws)
    suites["laws"].push_back({"laws", law.law, law.message, report.reproduce(law), law.verdict});
  const auto count = [](const std::vector<JunitCase>& all, bool (*of)(Verdict)) {
    return std::count_if(all.begin(), all.end(),
                         [of](const JunitCase& tested) { return of(tested.verdict); });
  };
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"posproof\">\n";
  for (const auto& [operation, all] : suites) {
    text += fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
        xml(operation), all.size(), count(all, is_failure), count(all, is_error),
        count(all, is_skipped));
    for (const JunitCase& tested : all) text += junit_case(tested);
    text += "  </testsuite>\n";
  }
  return text + "</testsuites>\n";
}

void write_report(const Report& report, const std::vector<Case>& cases,
                  const std::filesystem::path& folder) {
  write_aside(folder / "report.json", report_json(report).dump(1) + "\n");
  write_aside(folder / "junit.xml", report_junit(report));
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const std::filesystem::path file = folder / "counterexamples" / (cases[i].id + ".json");
    const Verdict verdict = report.results[i].verdict;
    if (!is_failure(verdict) && !(is_error(verdict) && report.start_failure.empty())) {
      std::filesystem::remove(file);  // of an earlier run
      continue;
    }
    std::filesystem::create_directories(folder / "counterexamples");
    json stored{{"operation", cases[i].operation},
                {"parameters", cases[i].parameters},
                {"inputs", to_json(cases[i].inputs)},
                {"comment", cases[i].comment}};
    if (cases[i].must_be_refused) stored["result"] = "refused";
    write_aside(file, stored.dump() + "\n");
  }
  for (const LawResult& law : report.laws) {
    const std::filesystem::path file =
        folder / "counterexamples" / (std::regex_replace(law.law, std::regex("/"), ".") + ".json");
    if (is_good(law.verdict) || law.counterexample.empty()) {
      std::filesystem::remove(file);
      continue;
    }
    std::filesystem::create_directories(folder / "counterexamples");
    write_aside(file, counterexample_json(law).dump(1) + "\n");
  }
}

}  // namespace posproof
