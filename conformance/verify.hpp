#pragma once

#include <functional>

#include "conformance/judge.hpp"
#include "conformance/waivers.hpp"

namespace posproof {

enum class Verdict { pass, convention, unsupported, refused, fail, error, crash, timeout, waived };
inline constexpr int kVerdictCount = 9;
std::string_view name(Verdict verdict);
/// Where nothing was expected of the answer.
Verdict verdict_of(Answer::Kind kind);

struct Result {
  std::string case_id;
  std::string operation;
  std::string dtype;
  Verdict verdict = Verdict::error;
  bool has_phase = false;
  std::optional<Grade> grade;
  std::string message;
  std::optional<Worst> worst;
  std::string kind;  ///< of a convention
  std::vector<Recipe> follows;
};

/// What became of one law.
struct LawResult {
  std::string law;
  Verdict verdict = Verdict::error;
  int tests = 0;  ///< experiments that agreed
  std::string message;
  std::vector<Request> counterexample;  ///< what was asked, in order, in the experiment that failed
};

/// One line a person can act on.
struct Diagnosis {
  std::string kind, title, parameter, declared, actual, evidence, operation;
  std::size_t explains = 0, of = 0;
};

/// Which recipe an operation follows, and the cases where it does not.
struct Followed {
  Recipe recipe;
  std::size_t cases = 0;
  std::vector<std::string> exceptions;
};

struct Report {
  Description implementation;
  std::string command;  ///< IMPLEMENTATION as it was given
  std::string options;  ///< what a replay must repeat: --grade, --recipe, …
  std::vector<Result> results;
  std::map<std::string, std::map<std::string, std::optional<Grade>>> grades;  ///< operation, dtype
  std::map<std::string, bool> has_phase;                                      ///< operation
  std::map<std::string, Followed> recipes;
  std::vector<LawResult> laws;
  std::string law_options;  ///< what a replay of a law must repeat: --laws, --seed
  std::vector<Diagnosis> diagnosis;
  std::vector<Waiver> unmatched_waivers;
  std::string start_failure;       ///< why nothing was asked, or empty
  std::vector<std::string> notes;  ///< what is odd about the declaration, without being wrong
  std::map<std::string, std::string> origins;  ///< case to the file it came from
  double seconds = 0;

  std::size_t count(Verdict verdict) const;
  /// At least one case or law ran, and everything is pass, refused, unsupported or waived.
  bool good() const;
  /// The command that runs just that case, or that law, again.
  std::string reproduce(const std::string& case_id) const;
  std::string reproduce(const LawResult& law) const;
};

/// Which laws to try on how many inputs.
struct LawOptions {
  std::vector<std::string> names;
  int experiments = 100;
  std::uint64_t seed = 20260101;
};

struct VerifyOptions {
  std::string command;
  std::optional<Grade> demanded_grade;
  Recipe recipe = Recipe::exact;
  std::chrono::milliseconds timeout{60000};
  std::vector<Waiver> waivers;
  LawOptions laws;
  /// Called with what is counted, done and total; null for none.
  std::function<void(const char*, std::size_t, std::size_t)> progress;
};

/// No reason to fail a run: pass, refused, unsupported, waived.
bool is_good(Verdict verdict);

/// Asks the implementation every case and judges the answers, then tries the laws.
Report verify(Implementation& implementation, const std::vector<Case>& cases,
              const VerifyOptions& options);

/// Turns failures that one other value of a convention parameter explains into `convention`: every
/// failing case of the operation that declared one value is right under one other value. What had
/// to be refused has no value: such a failure stays one, and does not stand in the way of the
/// others.
void recognise_conventions(const std::vector<Case>& cases, const std::vector<Answer>& answers,
                           Report& report);

/// The recipe that most answers of each operation follow.
void recognise_recipes(const std::vector<Case>& cases, const std::vector<Answer>& answers,
                       const std::vector<std::optional<Expectation>>& expectations, Report& report);

/// `one(i)` for i < count on as many threads as there are cores.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& one);

}  // namespace posproof
