#include "properties/core/law.hpp"

#include <rapidcheck.h>
#include <rapidcheck/detail/TestListenerAdapter.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "properties/core/generators.hpp"

namespace posproof::properties {

#define POSPROOF_SCHEME(stem) \
  namespace stem {            \
  std::vector<Law> laws();    \
  }
#include "posproof/schemes.inc"
#undef POSPROOF_SCHEME
namespace every_operation {
std::vector<Law> laws();
}

std::vector<Law> all_laws() {
  std::vector<Law> all;
#define POSPROOF_SCHEME(stem) \
  for (Law & law : stem::laws()) all.push_back(std::move(law));
#include "posproof/schemes.inc"
#undef POSPROOF_SCHEME
  for (Law& law : every_operation::laws()) all.push_back(std::move(law));
  return all;
}

namespace {

using rc::detail::CaseResult;

std::set<std::string> reached_by(const rc::detail::SuccessResult& success) {
  std::set<std::string> reached;
  for (const auto& [tags, count] : success.distribution) reached.insert(tags.begin(), tags.end());
  return reached;
}

/// A class that is not among those reached, or empty.
std::string unreached(const Law& law, const std::set<std::string>& reached) {
  for (const std::string& wanted : law.must_reach)
    if (!reached.count(rc::toString(wanted))) return wanted;  // shown with its quotes
  return "";
}

/// Without the macro that said it, and the folder that its file was compiled in.
std::string said(const std::string& description) {
  const std::size_t line = description.find('\n'), message = description.find("\n\n");
  if (line == std::string::npos) return description;
  if (description.compare(line + 1, 8, "RC_FAIL(") == 0 && message != std::string::npos)
    return description.substr(message + 2);
  const std::size_t folder = description.rfind('/', line);
  return folder == std::string::npos ? description : description.substr(folder + 1);
}

std::string shown(const rc::detail::FailureResult& failure,
                  const std::vector<Request>& counterexample) {
  std::ostringstream text;
  text << said(failure.description) << "\nafter " << failure.numSuccess
       << " experiments that agreed, on";
  for (const Request& request : counterexample) {
    text << "\n  " << request.operation << " " << request.parameters.dump();
    for (const auto& [name, tensor] : request.inputs) {
      text << " " << name << " ";
      showValue(tensor, text);
    }
  }
  return text.str();
}

Finding::Verdict verdict_of(Answer::Kind kind) {
  return kind == Answer::Kind::crash     ? Finding::Verdict::crash
         : kind == Answer::Kind::timeout ? Finding::Verdict::timeout
                                         : Finding::Verdict::error;
}

/// One series of experiments.
class Series {
 public:
  Series(const Law& law, Subject& subject) : law_(law), subject_(subject) {}

  rc::detail::TestResult run(std::uint64_t seed, const Thoroughness& thoroughness) {
    rc::detail::TestParams params;
    params.seed = seed;
    params.maxSuccess = thoroughness.experiments;
    params.maxDiscardRatio = 30;
    params.disableShrinking = !thoroughness.shrink;
    rc::detail::TestMetadata metadata;
    metadata.id = metadata.description = law_.name;
    rc::detail::TestListenerAdapter silent;
    return rc::detail::checkTestable([this] { experiment(); }, metadata, params, silent,
                                     std::unordered_map<std::string, rc::detail::Reproduce>());
  }

  /// The implementation does not do what the law asks.
  bool is_excluded() const { return agreed_ == 0 && subject_.exclusions() >= kExclusions; }

  /// Of the last experiment that failed or ended the series.
  const std::vector<Request>& counterexample() const { return counterexample_; }

 private:
  void experiment() {
    // A program that gave no answer is not shrunk, one that answers nothing not asked for ever.
    if (subject_.end() || is_excluded()) return;
    subject_.forget();
    try {
      law_.experiment(subject_);
      ++agreed_;
    } catch (const Subject::Ended&) {
      counterexample_ = subject_.asked();
    } catch (const CaseResult& result) {
      // Shrinking ends with the smallest inputs, but also tries some that do not fail.
      if (result.type == CaseResult::Type::Failure) counterexample_ = subject_.asked();
      throw;
    } catch (const rc::GenerationFailure&) {
      throw;
    } catch (...) {
      counterexample_ = subject_.asked();
      throw;
    }
  }

  /// So many questions that it does not take, and none that it does.
  static constexpr int kExclusions = 200;

  const Law& law_;
  Subject& subject_;
  int agreed_ = 0;
  std::vector<Request> counterexample_;
};

/// Series of experiments until each class has been met: a rare one is not missed by an unlucky
/// seed.
constexpr int kSeries = 12;

}  // namespace

Finding check(const Law& law, Subject& subject, const Thoroughness& thoroughness) {
  for (const std::string& operation : law.operations)
    if (!subject.has(operation))
      return {Finding::Verdict::unsupported, 0, "it has no " + operation, {}};

  subject.start_law(law.operations);
  Series series(law, subject);
  Finding finding;
  std::set<std::string> reached;
  for (int s = 0; s < kSeries && (s == 0 || !unreached(law, reached).empty()); ++s) {
    const rc::detail::TestResult result = series.run(
        thoroughness.seed + static_cast<std::uint64_t>(s) * 0x9e3779b97f4a7c15u, thoroughness);
    rc::detail::SuccessResult success;
    rc::detail::FailureResult failure;
    rc::detail::GaveUpResult gave_up;
    rc::detail::Error error;
    finding.counterexample = series.counterexample();
    if (subject.end()) {
      finding.verdict = verdict_of(subject.end()->kind);
      finding.message = subject.end()->message;
      return finding;
    }
    if (series.is_excluded()) {
      finding.verdict = Finding::Verdict::unsupported;
      finding.message = "it takes none of the questions that the law asks";
      return finding;
    }
    if (result.match(failure)) {
      finding.verdict = Finding::Verdict::fail;
      finding.tests += failure.numSuccess;
      finding.message = shown(failure, series.counterexample());
      return finding;
    }
    if (result.match(gave_up)) {
      finding.verdict =
          subject.exclusions() > 0 ? Finding::Verdict::unsupported : Finding::Verdict::fail;
      finding.tests += gave_up.numSuccess;
      finding.message = gave_up.description;
      return finding;
    }
    if (result.match(error)) {
      finding.verdict = Finding::Verdict::fail;
      finding.message = error.description;
      return finding;
    }
    result.match(success);
    finding.tests += success.numSuccess;
    reached.merge(reached_by(success));
  }
  const std::string missed = unreached(law, reached);
  if (!missed.empty()) {
    // What it excludes may be what the law is about.
    finding.verdict =
        subject.exclusions() > 0 ? Finding::Verdict::unsupported : Finding::Verdict::untested;
    finding.message =
        "never reached: " + missed + ", in " + std::to_string(finding.tests) + " experiments";
  }
  return finding;
}

}  // namespace posproof::properties
