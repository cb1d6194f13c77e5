#pragma once

#include <filesystem>
#include <string>

#include "conformance/verify.hpp"

namespace posproof {

/// A table operations × types with grades and recipes, then what failed, one line each and the
/// command that replays it.
std::string report_text(const Report& report);
nlohmann::json report_json(const Report& report);
/// JUnit XML: one suite per operation.
std::string report_junit(const Report& report);

/// Writes report.json and junit.xml, and one case file per failure under counterexamples/. Makes
/// the folder.
void write_report(const Report& report, const std::vector<Case>& cases,
                  const std::filesystem::path& folder);

/// "y[3,0,17] got 0x1.8p-3 expected 0x1.9p-3 error 7.8e-3 bound 4.0e-7"
std::string to_string(const Worst& worst);

}  // namespace posproof
