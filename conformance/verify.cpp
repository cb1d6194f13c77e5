#include "conformance/verify.hpp"

#include <mpfr.h>
#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "conformance/laws.hpp"
#include "reference/core/registry.hpp"

namespace posproof {
namespace {

/// After so many time-outs of one operation in a row its other cases are not sent any more.
constexpr int kPatience = 3;

void judge_refusal(const Answer& answer, Result& result) {
  switch (answer.kind) {
    case Answer::Kind::outputs:
      result.verdict = Verdict::fail;
      result.message = "answered what it must refuse";
      break;
    case Answer::Kind::error:
      result.verdict = Verdict::refused;
      break;
    default:
      result.verdict = verdict_of(answer.kind);
  }
}

void judge_outputs(const Expectation& expectation, const Case& asked, const Answer& answer,
                   const VerifyOptions& options, Result& result) {
  const std::string wrong = malformed(expectation, answer.outputs);
  if (!wrong.empty()) {
    result.verdict = Verdict::error;
    result.message = wrong;
    return;
  }
  const bool by_recipe = options.recipe != Recipe::exact &&
                         std::count(expectation.operation->recipes.begin(),
                                    expectation.operation->recipes.end(), options.recipe) > 0;
  const Judgement judgement = by_recipe ? judge_by_recipe(expectation, asked.inputs, answer.outputs)
                                        : judge(expectation, asked.inputs, answer.outputs);
  result.grade = judgement.grade;
  result.verdict = judgement.pass ? Verdict::pass : Verdict::fail;
  if (!judgement.pass || result.grade != Grade::P0) result.worst = judgement.worst;
  if (judgement.pass && options.demanded_grade && result.grade &&
      *result.grade > *options.demanded_grade) {
    result.verdict = Verdict::fail;
    result.message = "is " + name(*result.grade, result.has_phase) + ", demanded is " +
                     name(*options.demanded_grade, result.has_phase);
  }
}

Result judge_answer(const Case& asked, const Answer& answer,
                    const std::optional<Expectation>& expectation, const VerifyOptions& options) {
  Result result;
  result.case_id = asked.id;
  result.operation = asked.operation;
  result.message = answer.message;
  if (asked.must_be_refused) {
    judge_refusal(answer, result);
    return result;
  }
  result.dtype = std::string(name(expectation->dtype));
  result.has_phase = expectation->has_phase;
  switch (answer.kind) {
    case Answer::Kind::outputs:
      judge_outputs(*expectation, asked, answer, options, result);
      break;
    case Answer::Kind::refused:
      result.verdict = Verdict::fail;
      result.message = "refused what it must answer: " + answer.message;
      break;
    default:
      result.verdict = verdict_of(answer.kind);
  }
  return result;
}

/// Worst grade per operation and type over the cases that are evidence; none where a case failed.
void collect_grades(Report& report) {
  std::set<std::pair<std::string, std::string>> failed;
  for (const Result& result : report.results) {
    if (result.dtype.empty() || result.verdict == Verdict::unsupported) continue;
    report.has_phase[result.operation] |= result.has_phase;
    std::optional<Grade>& worst = report.grades[result.operation][result.dtype];
    if (result.verdict != Verdict::pass && result.verdict != Verdict::waived)
      failed.emplace(result.operation, result.dtype);
    else if (result.grade)
      worst = worst ? std::max(*worst, *result.grade) : result.grade;
  }
  for (const auto& [operation, dtype] : failed) report.grades[operation][dtype].reset();
}

template <class Judged>
bool waive(const Waiver& waiver, Judged& judged) {
  if (is_good(judged.verdict)) return false;
  judged.message = "waived (" + std::string(name(judged.verdict)) + "): " + waiver.reason;
  judged.verdict = Verdict::waived;
  return true;
}

/// A known law that this run does not try.
bool is_of_another_law(const std::string& name, const std::vector<std::string>& tried) {
  const auto among = [&name](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return name.find('/') != std::string::npos && !among(tried) && among(law_names());
}

void apply_waivers(const VerifyOptions& options, Report& report) {
  for (const Waiver& waiver : options.waivers) {
    if (is_of_another_law(waiver.case_id, options.laws.names)) continue;
    bool matched = false;
    for (Result& result : report.results)
      if (waiver.case_id.empty() ? !result.kind.empty() && result.kind == waiver.kind
                                 : result.case_id == waiver.case_id)
        matched = waive(waiver, result) || matched;
    // Drawn inputs may or may not show what is known of a law.
    for (LawResult& law : report.laws)
      if (law.law == waiver.case_id) {
        waive(waiver, law);
        matched = true;
      }
    if (!matched) report.unmatched_waivers.push_back(waiver);
  }
}

class Interview {
 public:
  Interview(Implementation& implementation, const VerifyOptions& options)
      : implementation_(implementation), options_(options) {}

  Answer ask(const Case& asked) {
    const Operation& operation = find_operation(asked.operation);
    nlohmann::json parameters = asked.parameters;
    std::string dtype;
    if (!asked.must_be_refused) {
      const Parameters checked = checked_parameters(operation, asked.parameters);
      parameters = checked.with_defaults();
      dtype = name(output_dtype(operation, checked, asked.inputs));
    } else {
      parameters = nlohmann::json::object();  // sent without being checked first
    }
    const std::string reason =
        declared_unsupported(implementation_.description(), asked.operation, parameters, dtype);
    if (!reason.empty()) return {Answer::Kind::unsupported, {}, reason};
    int& silent = silent_[asked.operation];
    if (silent >= kPatience)
      return {Answer::Kind::timeout,
              {},
              "not sent: the last " + std::to_string(kPatience) + " cases of " + asked.operation +
                  " timed out"};
    Answer answer =
        implementation_.run({asked.operation, asked.parameters, asked.inputs}, options_.timeout);
    silent = answer.kind == Answer::Kind::timeout ? silent + 1 : 0;
    return answer;
  }

 private:
  Implementation& implementation_;
  const VerifyOptions& options_;
  std::map<std::string, int> silent_;
};

}  // namespace

Verdict verdict_of(Answer::Kind kind) {
  switch (kind) {
    case Answer::Kind::unsupported:
      return Verdict::unsupported;
    case Answer::Kind::refused:
      return Verdict::refused;
    case Answer::Kind::crash:
      return Verdict::crash;
    case Answer::Kind::timeout:
      return Verdict::timeout;
    case Answer::Kind::error:
    case Answer::Kind::broken:
      return Verdict::error;
    default:
      return Verdict::pass;
  }
}

std::string_view name(Verdict verdict) {
  static constexpr std::string_view kNames[kVerdictCount]{"pass",    "convention", "unsupported",
                                                          "refused", "fail",       "error",
                                                          "crash",   "timeout",    "waived"};
  return kNames[static_cast<int>(verdict)];
}

std::size_t Report::count(Verdict verdict) const {
  return static_cast<std::size_t>(
      std::count_if(results.begin(), results.end(),
                    [verdict](const Result& result) { return result.verdict == verdict; }));
}

bool is_good(Verdict verdict) {
  return verdict == Verdict::pass || verdict == Verdict::refused ||
         verdict == Verdict::unsupported || verdict == Verdict::waived;
}

bool Report::good() const {
  bool ran = false, all_good = unmatched_waivers.empty();
  const auto look_at = [&](const auto& judged) {
    ran = ran || judged.verdict != Verdict::unsupported;
    all_good = all_good && is_good(judged.verdict);
  };
  for (const Result& result : results) look_at(result);
  for (const LawResult& law : laws) look_at(law);
  return ran && all_good;
}

namespace {

std::string quoted(const std::string& word) {
  if (word.find_first_of(" \"'\\$`|&;<>()*?[]#~!\n\t") == std::string::npos) return word;
  std::string text = "'";
  for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string Report::reproduce(const LawResult& law) const {
  return "posproof verify " + quoted(command) + options + law_options + " --case " + law.law;
}

std::string Report::reproduce(const std::string& case_id) const {
  const auto origin = origins.find(case_id);
  return "posproof verify " + quoted(command) + options + " --case " +
         (origin == origins.end() ? case_id : quoted(origin->second));
}

void in_parallel(std::size_t count, const std::function<void(std::size_t)>& one) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
  const auto work = [&] {
    try {
      for (std::size_t i; !failed && (i = next++) < count;) one(i);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
    mpfr_free_cache();
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

Report verify(Implementation& implementation, const std::vector<Case>& cases,
              const VerifyOptions& options) {
  const auto started = std::chrono::steady_clock::now();
  Report report;
  report.command = options.command;
  for (const Case& asked : cases)
    if (!asked.origin.empty()) report.origins[asked.id] = asked.origin;
  if (options.demanded_grade) report.options += " --grade " + name(*options.demanded_grade, true);
  if (options.recipe != Recipe::exact)
    report.options += " --recipe " + std::string(name(options.recipe));

  // The truth is computed while the implementation answers.
  std::vector<std::optional<Expectation>> expectations(cases.size());
  std::exception_ptr failure;
  std::jthread truth([&] {
    try {
      in_parallel(cases.size(), [&](std::size_t i) {
        if (cases[i].must_be_refused) return;
        const Operation& operation = find_operation(cases[i].operation);
        const bool has_recipe =
            std::count(operation.recipes.begin(), operation.recipes.end(), options.recipe) > 0;
        expectations[i] = expectation_of(cases[i].operation, cases[i].parameters, cases[i].inputs,
                                         has_recipe ? options.recipe : Recipe::exact);
      });
    } catch (...) {
      failure = std::current_exception();
    }
  });
  std::vector<Answer> answers(cases.size());
  const Answer started_up = implementation.start(options.timeout);
  if (started_up.kind == Answer::Kind::outputs) {
    report.implementation = implementation.description();
    report.notes = unknown_names(report.implementation);
    Interview interview(implementation, options);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      answers[i] = interview.ask(cases[i]);
      if (options.progress) options.progress("cases", i + 1, cases.size());
    }
  } else {
    report.start_failure = started_up.message;
    answers.assign(cases.size(), started_up);
  }
  truth.join();
  if (failure) std::rethrow_exception(failure);

  report.results.resize(cases.size());
  in_parallel(cases.size(), [&](std::size_t i) {
    report.results[i] = judge_answer(cases[i], answers[i], expectations[i], options);
  });
  if (report.start_failure.empty()) {
    recognise_conventions(cases, answers, report);
    if (options.recipe == Recipe::exact) recognise_recipes(cases, answers, expectations, report);
  }
  if (report.start_failure.empty() && !options.laws.names.empty()) {
    report.law_options = " --laws " + std::to_string(options.laws.experiments) + " --seed " +
                         std::to_string(options.laws.seed);
    report.laws = try_laws(implementation, options);
  }
  if (report.start_failure.empty()) apply_waivers(options, report);
  collect_grades(report);
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

}  // namespace posproof
