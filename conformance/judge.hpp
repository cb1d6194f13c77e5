#pragma once

#include <optional>

#include "fixtures/core/case.hpp"
#include "reference/core/grade.hpp"
#include "reference/core/implementation.hpp"

namespace posproof {

/// The element farthest outside (or, in a passing case, nearest to) its bound.
struct Worst {
  std::string output;
  std::vector<std::size_t> index;
  double got = 0, expected = 0, error = 0, bound = 0;
};

/// What a case expects.
struct Expectation {
  const Operation* operation = nullptr;
  Parameters parameters;
  Dtype dtype = Dtype::f64;
  bool has_phase = false;
  Truth truth;
};

/// Throws Refused where the truth is that the operation must not answer.
Expectation expectation_of(const std::string& operation, const nlohmann::json& parameters,
                           const Tensors& inputs, Recipe recipe = Recipe::exact);

/// What is wrong with the outputs' names, shapes or types, or empty.
std::string malformed(const Expectation& expectation, const Tensors& outputs);

struct Comparison {
  bool within = true;
  bool has_evidence = false;
  Worst worst;
};

/// Every element against its bound. Copied lanes must have their bits, integers their value, and
/// where the truth depends on a NaN or infinity of the input anything goes.
Comparison compare(const Expectation& expectation, const Tensors& outputs, const Bounds& bounds);
/// Bit for bit (−0 equals +0 in computed lanes).
Comparison compare_exactly(const Expectation& expectation, const Tensors& outputs);

struct Judgement {
  bool pass = false;
  std::optional<Grade> grade;  ///< the best one met; none when the case is no evidence for it
  Worst worst;                 ///< against the loosest grade
};
Judgement judge(const Expectation& expectation, const Tensors& inputs, const Tensors& outputs);
Judgement judge_by_recipe(const Expectation& expectation, const Tensors& inputs,
                          const Tensors& outputs);

}  // namespace posproof
