#pragma once

#include <string>
#include <vector>

namespace posproof::bugs {

/// One of the 135 known kinds of mistakes. Ids never change meaning.
struct Kind {
  const char* id;
  const char* title;
  /// What will show it ("rope_type yarn"), or why nothing can; empty where a model exists.
  const char* waits_for;
  const char* not_expressible;
};

const std::vector<Kind>& kinds();

/// docs/bug-kinds.md: each kind, and whether it is modelled, waits, or cannot be expressed.
std::string kinds_markdown();

}  // namespace posproof::bugs
