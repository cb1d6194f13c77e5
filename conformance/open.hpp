#pragma once

#include "reference/core/implementation.hpp"

namespace posproof {

/// IMPLEMENTATION of the command line: builtin:NAME | cmd:"python3 mine.py". Throws
/// std::invalid_argument for an unknown name, std::runtime_error for a program that cannot be
/// started.
std::unique_ptr<Implementation> open_implementation(const std::string& text);

}  // namespace posproof
