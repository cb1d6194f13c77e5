#include <fmt/format.h>

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

bool is_failure(Verdict verdict) {
  return verdict == Verdict::fail || verdict == Verdict::convention;
}
bool is_error(Verdict verdict) {
  return verdict == Verdict::error || verdict == Verdict::crash || verdict == Verdict::timeout;
}
bool is_skipped(Verdict verdict) {
  return verdict == Verdict::unsupported || verdict == Verdict::waived;
}

std::string junit_case(const Report& report, const Result& result) {
  std::string text = fmt::format("    <testcase classname=\"{}\" name=\"{}\"",
                                 xml(result.operation), xml(result.case_id));
  std::string message = result.message;
  if (result.worst) message += (message.empty() ? "" : " ") + to_string(*result.worst);
  const char* element = is_failure(result.verdict)   ? "failure"
                        : is_error(result.verdict)   ? "error"
                        : is_skipped(result.verdict) ? "skipped"
                                                     : nullptr;
  if (!element) return text + "/>\n";
  return text +
         fmt::format(
             ">\n      <{0} message=\"{1}\"{2}>{3}</{0}>\n    </testcase>\n", element, xml(message),
             is_skipped(result.verdict) ? "" : fmt::format(" type=\"{}\"", name(result.verdict)),
             is_skipped(result.verdict) ? "" : xml(report.reproduce(result.case_id)));
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
  json results = json::array(), diagnosis = json::array(), waivers = json::array();
  for (const Result& result : report.results) results.push_back(result_json(report, result));
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
      {"laws", json::array()},
      {"diagnosis", diagnosis},
      {"unmatched_waivers", waivers}};
}

std::string report_junit(const Report& report) {
  std::map<std::string, std::vector<const Result*>> suites;
  for (const Result& result : report.results) suites[result.operation].push_back(&result);
  const auto count = [](const std::vector<const Result*>& all, bool (*of)(Verdict)) {
    return std::count_if(all.begin(), all.end(),
                         [of](const Result* result) { return of(result->verdict); });
  };
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"posproof\">\n";
  for (const auto& [operation, all] : suites) {
    text += fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
        xml(operation), all.size(), count(all, is_failure), count(all, is_error),
        count(all, is_skipped));
    for (const Result* result : all) text += junit_case(report, *result);
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
}

}  // namespace posproof
