#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace posproof {

/// A known failure of an implementation, shown but not counted against the run.
struct Waiver {
  std::string case_id, kind;  ///< one of the two
  std::string reason, link;
};

/// Reads [{"case": "rope-apply-3f9a2c71", "reason": "…", "link": "…"}, {"kind": "K-RL1", …}].
/// Throws std::invalid_argument that names the file, the entry and what is allowed.
std::vector<Waiver> read_waivers(const std::filesystem::path& file);

}  // namespace posproof
