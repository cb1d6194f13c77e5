#include "conformance/judge.hpp"

#include <cmath>
#include <limits>

#include "reference/core/registry.hpp"

namespace posproof {
namespace {

/// Keeps the element with the largest error relative to its bound.
class WorstOf {
 public:
  explicit WorstOf(Comparison& comparison) : comparison_(comparison) {}

  void element(const std::string& output, const Tensor& tensor, std::size_t flat, double expected,
               double error, double bound) {
    const double ratio = error == 0 ? 0 : error / bound;  // infinite where nothing is allowed
    if (!(error <= bound)) comparison_.within = false;
    if (!(ratio > ratio_) && !std::isnan(ratio)) return;
    ratio_ = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
    comparison_.worst = {
        output, index_of(flat, tensor.shape()), tensor.value(flat), expected, error, bound};
  }

 private:
  Comparison& comparison_;
  double ratio_ = -1;
};

double distance(double got, double expected) {
  if (got == expected) return 0;
  const double error = std::fabs(got - expected);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

bool same_bits(const Tensor& got, const Tensor& expected, std::size_t i) {
  // A NaN's payload does not survive decimals.
  return got.bits(i) == expected.bits(i) ||
         (std::isnan(got.value(i)) && std::isnan(expected.value(i)));
}

}  // namespace

Expectation expectation_of(const std::string& operation, const nlohmann::json& parameters,
                           const Tensors& inputs, Recipe recipe) {
  Expectation expectation;
  expectation.operation = &find_operation(operation);
  expectation.parameters = checked_parameters(*expectation.operation, parameters);
  expectation.truth = truth_of(*expectation.operation, expectation.parameters, inputs, recipe);
  expectation.dtype = output_dtype(*expectation.operation, expectation.parameters, inputs);
  expectation.has_phase = expectation.operation->has_phase(expectation.parameters);
  return expectation;
}

std::string malformed(const Expectation& expectation, const Tensors& outputs) {
  for (const auto& [name, truth] : expectation.truth) {
    const auto found = outputs.find(name);
    if (found == outputs.end()) return "output " + name + " is missing";
    const Tensor& got = found->second;
    if (got.shape() != truth.rounded.shape())
      return "output " + name + " has shape " + to_string(got.shape()) + ", expected " +
             to_string(truth.rounded.shape());
    if (got.dtype() != truth.rounded.dtype())
      return "output " + name + " is " + std::string(posproof::name(got.dtype())) + ", expected " +
             std::string(posproof::name(truth.rounded.dtype()));
  }
  for (const auto& [name, tensor] : outputs)
    if (!expectation.truth.count(name)) return "unknown output " + name;
  return "";
}

Comparison compare_exactly(const Expectation& expectation, const Tensors& outputs) {
  Comparison comparison;
  WorstOf worst(comparison);
  for (const auto& [name, truth] : expectation.truth) {
    const Tensor& got = outputs.at(name);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double expected = truth.rounded.value(i);
      if (std::isnan(expected) && !truth.copied[i]) continue;
      comparison.has_evidence = true;
      const bool right = truth.copied[i]         ? same_bits(got, truth.rounded, i)
                         : is_float(got.dtype()) ? got.value(i) == expected
                                                 : got.integer(i) == truth.rounded.integer(i);
      const double error =
          right ? 0
                : std::max(distance(got.value(i), expected), std::numeric_limits<double>::min());
      worst.element(name, got, i, expected, error, 0);
    }
  }
  return comparison;
}

Comparison compare(const Expectation& expectation, const Tensors& outputs, const Bounds& bounds) {
  Comparison comparison;
  WorstOf worst(comparison);
  for (const auto& [name, truth] : expectation.truth) {
    const Tensor& got = outputs.at(name);
    const Bound& bound = bounds.at(name);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double expected = truth.exact.value(i);
      if (truth.copied[i]) {
        const double error =
            same_bits(got, truth.rounded, i)
                ? 0
                : std::max(distance(got.value(i), expected), std::numeric_limits<double>::min());
        worst.element(name, got, i, expected, error, 0);
        continue;
      }
      if (std::isnan(expected)) continue;
      comparison.has_evidence = comparison.has_evidence || bound.evidence[i];
      const double error =
          got.value(i) == truth.rounded.value(i) ? 0 : distance(got.value(i), expected);
      worst.element(name, got, i, expected, error, bound.limit[i]);
    }
  }
  return comparison;
}

Judgement judge(const Expectation& expectation, const Tensors& inputs, const Tensors& outputs) {
  Judgement judgement;
  const Comparison exact = compare_exactly(expectation, outputs);
  judgement.worst = exact.worst;
  if (exact.within) {
    judgement.pass = true;
    judgement.grade = Grade::P0;
    return judgement;
  }
  for (Grade grade :
       possible_grades(*expectation.operation, expectation.parameters, expectation.dtype)) {
    if (grade == Grade::P0) continue;
    const Bounds bounds = bounds_of(*expectation.operation, expectation.parameters, inputs,
                                    rounding_of(grade, expectation.dtype, expectation.has_phase));
    const Comparison comparison = compare(expectation, outputs, bounds);
    judgement.worst = comparison.worst;
    if (!comparison.within) continue;
    judgement.pass = true;
    if (comparison.has_evidence) judgement.grade = grade;
    break;
  }
  return judgement;
}

Judgement judge_by_recipe(const Expectation& expectation, const Tensors& inputs,
                          const Tensors& outputs) {
  const Comparison comparison = compare(expectation, outputs,
                                        bounds_of(*expectation.operation, expectation.parameters,
                                                  inputs, rounding_of_recipe(expectation.dtype)));
  return {comparison.within, std::nullopt, comparison.worst};
}

}  // namespace posproof
