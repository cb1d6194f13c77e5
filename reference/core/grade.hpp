#pragma once

#include "reference/core/truth.hpp"

namespace posproof {

/// How exact a passing implementation is (docs/error-model.md). Without a phase P0 is called
/// `exact` and P1 `bound`.
enum class Grade { P0, P1, P2, P3 };

std::string name(Grade grade, bool has_phase);
/// Throws std::invalid_argument for anything but P0…P3.
Grade grade_from(const std::string& name);

/// How an implementation of that grade rounds towards an output of type `dtype`.
Rounding rounding_of(Grade grade, Dtype dtype, bool has_phase);
/// How an implementation rounds that follows a recipe: the angle is given, the rest is f32.
Rounding rounding_of_recipe(Dtype dtype);

/// The grades that results of such a call can have, best first.
std::vector<Grade> possible_grades(const Operation& operation, const Parameters& parameters,
                                   Dtype dtype);

}  // namespace posproof
