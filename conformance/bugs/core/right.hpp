#pragma once

#include "conformance/bugs/core/model.hpp"

namespace posproof::bugs {

/// What a right implementation may do otherwise: nothing may reject it.
struct RightVariation {
  std::string name;
  std::vector<std::string> operations;  ///< what it declares; no other is asked
  Answering answer;
  std::map<std::string, std::vector<nlohmann::json>> takes = {};  ///< values of parameters
};

std::vector<RightVariation> right_variations();
std::unique_ptr<Implementation> implementation_of(const RightVariation& variation);

std::vector<RightVariation> right_phases();  ///< frequencies and angles in other ways
std::vector<RightVariation> right_sums();    ///< dot products and rotations in other ways

}  // namespace posproof::bugs
