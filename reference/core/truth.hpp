#pragma once

#include "reference/core/operation.hpp"

namespace posproof {

/// The true value of one output.
struct TrueOutput {
  Tensor exact;                      ///< f64 nearest to the true value; int64 for integer outputs
  Tensor rounded;                    ///< the true value rounded once into the output type
  std::vector<std::uint8_t> copied;  ///< 1 for a lane whose bits are copied from an input
};
using Truth = std::map<std::string, TrueOutput>;

/// Checks parameters against the operation's specification and against each other.
/// Throws Refused.
Parameters checked_parameters(const Operation& operation, const nlohmann::json& given);

/// Checks names, kinds, shapes, position range (−2^31 < p < 2^31) and that all float inputs share
/// one type. Throws Refused.
void check_inputs(const Operation& operation, const Parameters& parameters, const Tensors& inputs);

/// The type of the float outputs: that of the float inputs, else the parameter `dtype`.
Dtype output_dtype(const Operation& operation, const Parameters& parameters, const Tensors& inputs);

/// True when every input carries the leading batch axis B.
bool is_batched(const Operation& operation, const Parameters& parameters, const Tensors& inputs);

/// The true outputs, each rounded once, by intervals of rising precision until every rounding is
/// certain. Throws Refused where the operation must not answer, std::runtime_error when the last
/// precision leaves a rounding open.
Truth truth_of(const Operation& operation, const Parameters& parameters, const Tensors& inputs,
               Recipe recipe = Recipe::exact);

/// The same by the second arithmetic.
Truth second_truth_of(const Operation& operation, const Parameters& parameters,
                      const Tensors& inputs, Recipe recipe = Recipe::exact);

/// Limits per element, flat over the (batched) output.
Bounds bounds_of(const Operation& operation, const Parameters& parameters, const Tensors& inputs,
                 const Rounding& rounding);

}  // namespace posproof
