#include "properties/core/subject.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/core/registry.hpp"

namespace posproof::properties {
namespace {

constexpr std::chrono::seconds kTimeout{30};

/// Half an ulp around a result that was rounded once; a whole one among the subnormals of f64, half
/// of whose ulp is no double.
double half_ulp(double value, const FloatFormat& format) {
  return std::fabs(value) * format.unit_roundoff() +
         std::max(format.smallest() / 2, std::numeric_limits<double>::denorm_min());
}

/// The shapes that the formula gives its outputs.
std::map<std::string, Shape> shapes_of(const Operation& operation, const Parameters& parameters,
                                       const Tensors& inputs) {
  const bool batched = is_batched(operation, parameters, inputs);
  Tensors call;
  for (const auto& [name, tensor] : inputs) call.emplace(name, batched ? tensor.slice(0) : tensor);
  std::map<std::string, Shape> shapes;
  for (const auto& [name, output] :
       operation.formula.estimate(parameters, Inputs<double>(call), Recipe::exact)) {
    Shape& shape = shapes[name];
    if (batched) shape.push_back(inputs.begin()->second.shape()[0]);
    if (output.is_integer)
      shape.insert(shape.end(), output.integers.shape().begin(), output.integers.shape().end());
    else
      shape.insert(shape.end(), output.values.shape().begin(), output.values.shape().end());
  }
  return shapes;
}

void require_form(const std::map<std::string, Shape>& shapes, Dtype dtype, const Tensors& outputs) {
  for (const auto& [name, shape] : shapes) {
    const auto found = outputs.find(name);
    if (found == outputs.end()) RC_FAIL("output " + name + " is missing");
    if (found->second.shape() != shape)
      RC_FAIL("output " + name + " has shape " + to_string(found->second.shape()) + ", expected " +
              to_string(shape));
    if (found->second.dtype() != dtype)
      RC_FAIL("output " + name + " is " + std::string(posproof::name(found->second.dtype())) +
              ", expected " + std::string(posproof::name(dtype)));
  }
}

xt::xarray<Range> ranges(const Tensor& got, const std::vector<double>* limit) {
  xt::xarray<Range> range(xt::xarray<Range>::shape_type(got.shape().begin(), got.shape().end()));
  for (std::size_t i = 0; i < got.size(); ++i)
    range.data()[i] = range_around(got.value(i), limit ? (*limit)[i] : 0);
  return range;
}

/// The formula's values, which must lie within the answer's limits. Copied lanes may hold NaN;
/// their bits have laws of their own.
xt::xarray<Range> formula_ranges(const std::string& name, const Output<Real60>& output,
                                 const xt::xarray<Range>& answered) {
  if (output.is_integer) return answered;
  for (std::size_t i = 0; i < answered.size(); ++i)
    if (output.copied_from.empty() || output.copied_from[i] < 0)
      require_meet(output.values.data()[i], answered.data()[i],
                   "formula and answer " + name + "[" + std::to_string(i) + "]");
  return output.values;
}

}  // namespace

Answer Subject::ask(const std::string& operation, const nlohmann::json& parameters,
                    const Tensors& inputs) {
  asked_.push_back({operation, parameters, inputs});
  return implementation_.run(asked_.back(), kTimeout);
}

Bounds Subject::limits(const Operation& operation, const Parameters& parameters,
                       const Tensors& inputs, const Tensors& outputs, Dtype dtype) const {
  if (!is_float(dtype)) return {};
  if (grade_ != Grade::P0)
    return bounds_of(operation, parameters, inputs,
                     rounding_of(grade_, dtype, operation.has_phase(parameters)));
  Bounds bounds;
  for (const auto& [name, tensor] : outputs)
    for (std::size_t i = 0; i < tensor.size(); ++i)
      bounds[name].limit.push_back(half_ulp(tensor.value(i), format_of(dtype)));
  return bounds;
}

std::map<std::string, Measured> Subject::measure(const std::string& name,
                                                 const nlohmann::json& parameters,
                                                 const Tensors& inputs) {
  const Answer answer = ask(name, parameters, inputs);
  if (answer.kind == Answer::Kind::unsupported) RC_DISCARD(answer.message);
  if (answer.kind == Answer::Kind::refused)
    RC_FAIL(name + " refused what it must answer: " + answer.message);
  if (answer.kind != Answer::Kind::outputs) RC_FAIL(name + " gave no outputs: " + answer.message);

  const Operation& operation = find_operation(name);
  const Parameters checked = checked_parameters(operation, parameters);
  const Dtype dtype = output_dtype(operation, checked, inputs);
  require_form(shapes_of(operation, checked, inputs), dtype, answer.outputs);
  const Bounds bounds = limits(operation, checked, inputs, answer.outputs, dtype);

  std::map<std::string, Measured> measured;
  for (const auto& [output, got] : answer.outputs) {
    const auto bound = bounds.find(output);
    measured[output] = {got, ranges(got, bound == bounds.end() ? nullptr : &bound->second.limit)};
  }
  if (arithmetic_ == Arithmetic::formulas && !is_batched(operation, checked, inputs))
    for (const auto& [output, value] :
         operation.formula.at_60(checked, Inputs<Real60>(inputs), Recipe::exact))
      measured.at(output).range = formula_ranges(output, value, measured.at(output).range);
  return measured;
}

}  // namespace posproof::properties
