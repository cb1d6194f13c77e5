#pragma once

#include <cstdint>

#include "properties/core/subject.hpp"

namespace posproof::properties {

/// Something that must hold for all inputs.
struct Law {
  std::string name;                     ///< a sentence: "rope/score_depends_on_the_offset_only"
  std::vector<std::string> operations;  ///< what it asks for
  /// One experiment on inputs that it draws itself; throws through RC_ASSERT and its like.
  void (*experiment)(Subject&);
  /// Classes of inputs that make the law say something. A law that never meets one has not been
  /// tested, and fails.
  std::vector<std::string> must_reach = {};
};

struct Finding {
  enum class Verdict { pass, fail, unsupported };
  Verdict verdict = Verdict::pass;
  std::string message;                  ///< what is wrong, with the smallest inputs that show it
  std::vector<Request> counterexample;  ///< what was asked in that experiment
};

/// Many experiments; the same seed draws the same ones.
Finding check(const Law& law, Subject& subject, std::uint64_t seed, int experiments);

/// The laws of every scheme, in the order of schemes.cmake.
std::vector<Law> all_laws();

}  // namespace posproof::properties
