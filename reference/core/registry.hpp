#pragma once

#include "reference/core/operation.hpp"

namespace posproof {

/// Every scheme, one row each in schemes.cmake, in that order.
const std::vector<const Scheme*>& schemes();

/// Throws std::invalid_argument that lists the known names.
const Scheme& find_scheme(const std::string& name);
const Operation& find_operation(const std::string& name);
/// The part of an operation's name before the dot: its scheme.
const Scheme& scheme_of(const Operation& operation);

}  // namespace posproof
