#include "conformance/bugs/core/right.hpp"

#include "reference/core/registry.hpp"

namespace posproof::bugs {
namespace {

/// One value of each convention, and no other.
std::vector<RightVariation> right_conventions() {
  std::vector<RightVariation> all;
  for (const Scheme* scheme : schemes())
    for (const Operation& operation : scheme->operations)
      for (const ParameterSpec& spec : operation.parameters)
        if (!spec.convention_kind.empty())
          for (const std::string& choice : spec.choices)
            all.push_back({operation.name + ", " + spec.name + " " + choice + " alone",
                           {operation.name},
                           right,
                           {{spec.name, {choice}}}});
  return all;
}

}  // namespace

std::vector<RightVariation> right_variations() {
  std::vector<RightVariation> all;
  for (auto* part : {right_conventions, right_phases, right_sums})
    for (RightVariation& each : part()) all.push_back(std::move(each));
  return all;
}

std::unique_ptr<Implementation> implementation_of(const RightVariation& variation) {
  Description description{variation.name, POSPROOF_VERSION, "C++", false, {}};
  for (const std::string& operation : variation.operations)
    description.operations[operation] = {{}, variation.takes};
  return implementation_of(std::move(description), variation.answer);
}

}  // namespace posproof::bugs
