#include <fmt/format.h>

#include <algorithm>

#include "conformance/report.hpp"

namespace posproof {
namespace {

/// So many failures of one operation are told; the report in JSON has them all.
constexpr std::size_t kShownFailures = 5;

std::string columns_of(const Report& report, const std::string& operation) {
  std::string text;
  const auto& of_type = report.grades.at(operation);
  for (const char* dtype : {"f64", "f32", "f16", "bf16", "int64"}) {
    const auto found = of_type.find(dtype);
    if (found == of_type.end()) continue;
    text += fmt::format("  {} {}", dtype,
                        found->second ? name(*found->second, report.has_phase.at(operation)) : "-");
  }
  return text;
}

std::string upper(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(), ::toupper);
  return upper;
}

std::string recipe_of(const Report& report, const std::string& operation) {
  const auto found = report.recipes.find(operation);
  if (found == report.recipes.end()) return "";
  const Followed& followed = found->second;
  std::string text = fmt::format("  recipe {}", name(followed.recipe));
  if (followed.exceptions.empty()) return text;
  return text + fmt::format(", except {} of {} cases", followed.exceptions.size(),
                            followed.exceptions.size() + followed.cases);
}

std::string failure_line(const Report& report, const Result& result) {
  std::string text =
      fmt::format("{} {} {}", upper(name(result.verdict)), result.operation, result.case_id);
  if (!result.message.empty()) text += " " + result.message;
  if (result.worst) text += " " + to_string(*result.worst);
  return text + "\n  " + report.reproduce(result.case_id) + "\n";
}

/// How many laws hold, in one line, then those that do not.
std::string laws_text(const Report& report) {
  if (report.laws.empty()) return "";
  std::map<Verdict, std::size_t> counts;
  int tests = 0;
  std::string failures;
  for (const LawResult& law : report.laws) {
    ++counts[law.verdict];
    tests += law.tests;
    if (is_good(law.verdict) && law.verdict != Verdict::waived) continue;
    failures += fmt::format("{} law {} {}\n  {}\n", upper(name(law.verdict)), law.law, law.message,
                            report.reproduce(law));
  }
  std::string text = fmt::format("  {:18}", "laws");
  for (const auto& [verdict, count] : counts)
    text += fmt::format(" {:>3} {}", count, name(verdict));
  return text + fmt::format("  in {} experiments,{}\n", tests, report.law_options) + failures;
}

}  // namespace

std::string to_string(const Worst& worst) {
  return fmt::format("{}{} got {:a} expected {:a} error {:.1e} bound {:.1e}", worst.output,
                     to_string(worst.index), worst.got, worst.expected, worst.error, worst.bound);
}

std::string report_text(const Report& report) {
  const Description& who = report.implementation;
  std::string text = fmt::format("{} {} {}\n", who.name.empty() ? report.command : who.name,
                                 who.version, who.language);
  if (!report.start_failure.empty()) {
    const Verdict verdict = report.results.empty() ? Verdict::error : report.results[0].verdict;
    text += fmt::format("{} at start: {}\nno case could be asked\n", upper(name(verdict)),
                        report.start_failure);
    return text;
  }
  for (const std::string& note : report.notes) text += "NOTE " + note + "\n";
  std::map<std::string, std::map<Verdict, std::size_t>> counts;
  for (const Result& result : report.results) ++counts[result.operation][result.verdict];
  std::string not_offered;
  for (const auto& [operation, of_verdict] : counts) {
    if (of_verdict.size() == 1 && of_verdict.count(Verdict::unsupported)) {
      not_offered += (not_offered.empty() ? "" : ", ") + operation;
      continue;
    }
    text += fmt::format("  {:18}", operation);
    for (const auto& [verdict, count] : of_verdict)
      text += fmt::format(" {:>3} {}", count, name(verdict));
    if (report.grades.count(operation)) text += columns_of(report, operation);
    text += recipe_of(report, operation) + "\n";
  }
  if (!not_offered.empty()) text += "  unsupported: " + not_offered + "\n";
  text += laws_text(report);
  std::map<std::string, std::size_t> bad;
  for (const Result& result : report.results) {
    if (is_good(result.verdict) && result.verdict != Verdict::waived) continue;
    if (++bad[result.operation] <= kShownFailures) text += failure_line(report, result);
  }
  for (const auto& [operation, count] : bad)
    if (count > kShownFailures)
      text += fmt::format("… and {} more of {} (--format json has them all)\n",
                          count - kShownFailures, operation);
  for (const Diagnosis& diagnosis : report.diagnosis)
    text += fmt::format("DIAGNOSIS {} {}: {}; explains {} of {} failures\n", diagnosis.operation,
                        diagnosis.kind, diagnosis.title, diagnosis.explains, diagnosis.of);
  for (const Waiver& waiver : report.unmatched_waivers)
    text += fmt::format("WAIVER {} matches no failure: {}\n",
                        waiver.case_id.empty() ? waiver.kind : waiver.case_id, waiver.reason);
  text += fmt::format("{} cases{}", report.results.size(), report.results.empty() ? "" : ":");
  for (int verdict = 0; verdict < kVerdictCount; ++verdict)
    if (const std::size_t count = report.count(static_cast<Verdict>(verdict)))
      text += fmt::format(" {} {}", count, name(static_cast<Verdict>(verdict)));
  if (report.laws.empty() && report.results.size() == report.count(Verdict::unsupported))
    text += ", none ran: that is no success";
  return text + fmt::format(" in {:.1f} s\n", report.seconds);
}

}  // namespace posproof
