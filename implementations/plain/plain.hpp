#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reference/core/tensor.hpp"

/// Positional encodings as a framework writes them: libm, one pass, no interval and no proof.
/// Written from the papers and the contract, apart from the reference, so that an agreement of the
/// two is evidence.
namespace posproof::plain {

/// Runs one operation of the contract (docs/operations.md).
/// `Phase`, float or double, is the type of frequencies and angles, and of scores and weights of
/// inputs that are no wider. Products of f64 inputs are always double, results are rounded once,
/// and copied lanes keep their bits.
/// `parameters` is what the caller gave: defaults are filled here.
/// Throws Refused for parameters, shapes and positions outside the contract, std::invalid_argument
/// for an operation that is not one of operations().
template <class Phase>
Tensors run(const std::string& operation, const nlohmann::json& parameters, const Tensors& inputs);

/// The operations it has, in alphabetical order.
std::vector<std::string> operations();

}  // namespace posproof::plain
