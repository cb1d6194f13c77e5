#include "conformance/laws.hpp"

#include <algorithm>

#include "fixtures/core/fixture_file.hpp"
#include "properties/core/law.hpp"
#include "reference/core/registry.hpp"

namespace posproof {
namespace {

using properties::Finding;
using properties::Law;

Verdict verdict_of(Finding::Verdict verdict) {
  switch (verdict) {
    case Finding::Verdict::pass:
      return Verdict::pass;
    case Finding::Verdict::unsupported:
      return Verdict::unsupported;
    case Finding::Verdict::untested:
    case Finding::Verdict::fail:
      return Verdict::fail;
    case Finding::Verdict::error:
      return Verdict::error;
    case Finding::Verdict::crash:
      return Verdict::crash;
    case Finding::Verdict::timeout:
      return Verdict::timeout;
  }
  return Verdict::error;
}

/// A question is a case, or one that must be refused where the truth refuses it.
Case case_of(const Request& request, const std::string& law) {
  Case asked =
      make_case(request.operation, request.parameters, request.inputs, "counterexample to " + law);
  try {
    expectation_of(request.operation, request.parameters, request.inputs);
  } catch (const Refused&) {
    asked.must_be_refused = true;
  }
  return asked;
}

}  // namespace

std::vector<std::string> law_names() { return laws_about({}, {}); }

std::vector<std::string> laws_about(const std::vector<std::string>& schemes,
                                    const std::vector<std::string>& operations) {
  const auto selects = [](const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::count(names.begin(), names.end(), name) > 0;
  };
  std::vector<std::string> names;
  for (const Law& law : properties::all_laws())
    if (std::all_of(law.operations.begin(), law.operations.end(),
                    [&](const std::string& operation) {
                      return selects(operations, operation) &&
                             selects(schemes, scheme_of(find_operation(operation)).name);
                    }))
      names.push_back(law.name);
  return names;
}

std::vector<LawResult> try_laws(Implementation& implementation, const VerifyOptions& options) {
  properties::Subject subject(implementation, options.demanded_grade,
                              properties::Subject::Arithmetic::answers, options.timeout);
  std::vector<LawResult> results;
  for (const Law& law : properties::all_laws()) {
    const auto& wanted = options.laws.names;
    if (std::find(wanted.begin(), wanted.end(), law.name) == wanted.end()) continue;
    Finding finding =
        properties::check(law, subject, {options.laws.seed, options.laws.experiments});
    results.push_back({law.name, verdict_of(finding.verdict), finding.tests,
                       std::move(finding.message), std::move(finding.counterexample)});
    if (options.progress) options.progress("laws", results.size(), wanted.size());
  }
  return results;
}

nlohmann::json counterexample_json(const LawResult& result) {
  std::vector<Case> cases;
  for (const Request& request : result.counterexample)
    cases.push_back(case_of(request, result.law));
  const std::string operation = cases.empty() ? "" : cases[0].operation;
  return fixture_json(operation.substr(0, operation.find('.')), cases);
}

}  // namespace posproof
