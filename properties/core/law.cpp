#include "properties/core/law.hpp"

#include <rapidcheck.h>
#include <rapidcheck/detail/TestListenerAdapter.h>

#include <algorithm>
#include <set>

namespace posproof::properties {

#define POSPROOF_SCHEME(stem) \
  namespace stem {            \
  std::vector<Law> laws();    \
  }
#include "posproof/schemes.inc"
#undef POSPROOF_SCHEME

std::vector<Law> all_laws() {
  std::vector<Law> all;
#define POSPROOF_SCHEME(stem) \
  for (Law & law : stem::laws()) all.push_back(std::move(law));
#include "posproof/schemes.inc"
#undef POSPROOF_SCHEME
  return all;
}

namespace {

/// The class that was never reached, or empty.
std::string unreached(const Law& law, const rc::detail::SuccessResult& success) {
  std::set<std::string> reached;
  for (const auto& [tags, count] : success.distribution) reached.insert(tags.begin(), tags.end());
  for (const std::string& wanted : law.must_reach)
    if (!reached.count(rc::toString(wanted))) return wanted;  // shown with its quotes
  return "";
}

std::string shown(const rc::detail::FailureResult& failure) {
  std::string text = failure.description + "\nafter " + std::to_string(failure.numSuccess) +
                     " experiments that agreed, on";
  for (const auto& [type, value] : failure.counterExample) text += "\n  " + value;
  return text;
}

}  // namespace

Finding check(const Law& law, Subject& subject, std::uint64_t seed, int experiments) {
  for (const std::string& operation : law.operations)
    if (!subject.has(operation))
      return {Finding::Verdict::unsupported, "it has no " + operation, {}};

  Finding finding;
  const auto experiment = [&] {
    subject.forget();
    try {
      law.experiment(subject);
    } catch (const rc::detail::CaseResult& result) {
      // Shrinking ends with the smallest inputs, but also tries some that do not fail.
      if (result.type == rc::detail::CaseResult::Type::Failure)
        finding.counterexample = subject.asked();
      throw;
    } catch (const rc::GenerationFailure&) {
      throw;
    } catch (...) {
      finding.counterexample = subject.asked();
      throw;
    }
  };
  rc::detail::TestParams params;
  params.seed = seed;
  params.maxSuccess = experiments;
  rc::detail::TestMetadata metadata;
  metadata.id = metadata.description = law.name;
  rc::detail::TestListenerAdapter silent;
  const rc::detail::TestResult result =
      rc::detail::checkTestable(experiment, metadata, params, silent,
                                std::unordered_map<std::string, rc::detail::Reproduce>());

  rc::detail::SuccessResult success;
  rc::detail::FailureResult failure;
  rc::detail::GaveUpResult gave_up;
  rc::detail::Error error;
  if (result.match(failure)) {
    finding.verdict = Finding::Verdict::fail;
    finding.message = shown(failure);
  } else if (result.match(gave_up)) {
    finding.verdict = Finding::Verdict::unsupported;
    finding.message = gave_up.description;
  } else if (result.match(error)) {
    finding.verdict = Finding::Verdict::fail;
    finding.message = error.description;
  } else if (result.match(success)) {
    const std::string missed = unreached(law, success);
    if (!missed.empty()) {
      finding.verdict = Finding::Verdict::fail;
      finding.message =
          "never reached: " + missed + ", in " + std::to_string(experiments) + " experiments";
    }
  }
  return finding;
}

}  // namespace posproof::properties
