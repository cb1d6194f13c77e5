#pragma once

#include <iosfwd>

#include "reference/core/implementation.hpp"

namespace posproof {

/// Answers the line protocol (docs/protocol.md) from `in` on `out` until stop or the end of input;
/// a tensor goes out in base64 where the request's own did. `timeout` is for each answer of the
/// implementation, which must have been started. Returns the exit status: 1 when `out` has closed.
int serve(Implementation& implementation, std::istream& in, std::ostream& out,
          std::chrono::milliseconds timeout = std::chrono::hours(24));

}  // namespace posproof
