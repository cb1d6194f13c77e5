#pragma once

#include <map>

#include "conformance/bugs/core/attention_steps.hpp"
#include "reference/rope.hpp"

namespace posproof::bugs::rope {

namespace formula = reference::rope;
using nlohmann::json;
using Waves = formula::Waves<double>;

inline double own_position(const Call& call, std::size_t t) {
  return static_cast<double>(call.inputs.integers("positions")(t));
}

/// RoPE in double over the reference's steps, where each may be another one. The defaults are
/// right. Each sees the call as it was asked.
struct Steps {
  /// The parameters as they are taken.
  std::function<json(const Call&)> parameters = [](const Call& call) { return call.parameters; };
  std::function<std::vector<double>(const Parameters&, const Call&)> frequencies =
      [](const Parameters& p, const Call&) { return formula::inv_freq<double>(p, Recipe::exact); };
  std::function<double(const Call&, std::size_t t)> position = own_position;
  std::function<double(double position, double frequency)> angle = std::multiplies<>();
  /// The whole table, once it is made: a cache may hand out another.
  std::function<Waves(const Call&, Waves)> table = [](const Call&, Waves waves) { return waves; };
  /// The lanes that pair i turns.
  std::function<formula::Lanes(const std::string& layout, std::size_t pairs, std::size_t head_dim,
                               std::size_t i)>
      lanes = [](const std::string& layout, std::size_t pairs, std::size_t, std::size_t i) {
        return formula::lanes(layout, pairs, i);
      };
  /// The pair whose angle turns this lane of pair i.
  std::function<std::size_t(const std::string& layout, std::size_t pairs, std::size_t i,
                            std::size_t lane)>
      angle_of = [](const std::string&, std::size_t, std::size_t i, std::size_t) { return i; };
  /// How entries of the table, products and sums are kept.
  std::function<double(const Call&, double)> kept = [](const Call&, double x) { return x; };
};

/// Every operation of rope by these steps; other operations are right.
Outputs<double> answer(const Steps& steps, const Call& call);

inline bool has_frequencies(const Call& call) {
  return call.operation == "rope.inv_freq" || call.operation == "rope.cos_sin" ||
         call.operation == "rope.apply";
}

/// Steps that take other parameters where frequencies are made, and where lanes are turned.
inline Steps taking_frequencies(std::function<void(json&)> change) {
  Steps steps;
  steps.parameters = [change = std::move(change)](const Call& call) {
    json taken = call.parameters;
    if (has_frequencies(call)) change(taken);
    return taken;
  };
  return steps;
}
inline Steps taking_rotation(std::function<void(json&)> change) {
  Steps steps;
  steps.parameters = [change = std::move(change)](const Call& call) {
    json taken = call.parameters;
    if (call.operation == "rope.apply" || call.operation == "rope.rotate") change(taken);
    return taken;
  };
  return steps;
}
inline Steps at_positions(std::function<double(const Call&, std::size_t)> position) {
  Steps steps;
  steps.position = std::move(position);
  return steps;
}
inline Steps with_each_frequency(std::function<double(double)> change) {
  Steps steps;
  steps.frequencies = [change = std::move(change)](const Parameters& p, const Call&) {
    std::vector<double> omega = formula::inv_freq<double>(p, Recipe::exact);
    std::transform(omega.begin(), omega.end(), omega.begin(), change);
    return omega;
  };
  return steps;
}

using Names = std::vector<std::string>;

inline const Names kFrequencies{"rope.inv_freq", "rope.cos_sin", "rope.apply"};
inline const Names kAngles{"rope.cos_sin", "rope.apply"};
inline const Names kTurning{"rope.apply", "rope.rotate"};
inline const Names kRotated{"rope.apply"};

using bugs::model;
inline BugModel model(const Words& words, Names operations, Steps steps) {
  return model(words, std::move(operations),
               [steps = std::move(steps)](const Call& call) { return answer(steps, call); });
}

/// Position and table models, of rope_tables.cpp.
std::vector<BugModel> models_of_tables();

}  // namespace posproof::bugs::rope
