#pragma once

#include "reference/core/implementation.hpp"

namespace posproof {

/// builtin:NAME. Throws std::invalid_argument that lists the names.
std::unique_ptr<Implementation> open_builtin(const std::string& name);

std::vector<std::string> builtin_names();

}  // namespace posproof
