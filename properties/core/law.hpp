#pragma once

#include <cstdint>
#include <functional>

#include "properties/core/subject.hpp"

namespace posproof::properties {

/// Something that must hold for all inputs.
struct Law {
  std::string name;                     ///< a sentence: "rope/score_depends_on_the_offset_only"
  std::vector<std::string> operations;  ///< what it asks for
  /// One experiment on inputs that it draws itself; throws through RC_ASSERT and its like.
  std::function<void(Subject&)> experiment;
  /// Classes of inputs that make the law say something. A law that never meets one has not been
  /// tested, and fails.
  std::vector<std::string> must_reach = {};
};

struct Finding {
  /// `untested`: a class of must_reach was never met. `crash` and `timeout` are of the
  /// implementation; so is `error`, an answer against the protocol.
  enum class Verdict { pass, unsupported, untested, fail, error, crash, timeout };
  Verdict verdict = Verdict::pass;
  int tests = 0;                        ///< experiments that agreed
  std::string message;                  ///< what is wrong, with the smallest inputs that show it
  std::vector<Request> counterexample;  ///< what was asked in that experiment
};

struct Thoroughness {
  std::uint64_t seed = 0;  ///< the same draws the same experiments
  int experiments = 100;   ///< at least; more until every class of must_reach is met
  bool shrink = true;      ///< down to the smallest counterexample
};

Finding check(const Law& law, Subject& subject, const Thoroughness& thoroughness);

/// The laws of every scheme, in the order of schemes.cmake, then those of every operation.
std::vector<Law> all_laws();

}  // namespace posproof::properties
