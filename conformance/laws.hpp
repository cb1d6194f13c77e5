#pragma once

#include "conformance/verify.hpp"

namespace posproof {

/// Every law by name, in the order in which they are tried.
std::vector<std::string> law_names();

/// The laws that are about these schemes and operations alone; an empty list is all of them.
std::vector<std::string> laws_about(const std::vector<std::string>& schemes,
                                    const std::vector<std::string>& operations);

/// Tries options.laws.names on a started implementation.
std::vector<LawResult> try_laws(Implementation& implementation, const VerifyOptions& options);

/// The questions of a counterexample in order, as a fixture file that `--case` takes.
nlohmann::json counterexample_json(const LawResult& result);

}  // namespace posproof
