#include "properties/core/subject.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "properties/core/generators.hpp"
#include "reference/core/registry.hpp"

namespace posproof::properties {
namespace {

/// After so many time-outs of one operation in a row it is not asked any more.
constexpr int kPatience = 3;

/// Half an ulp around a result that was rounded once; a whole one among the subnormals of f64, half
/// of whose ulp is no double.
double half_ulp(double value, const FloatFormat& format) {
  return std::fabs(value) * format.unit_roundoff() +
         std::max(format.smallest() / 2, std::numeric_limits<double>::denorm_min());
}

/// Why the declaration excludes a question, or empty. What must be refused is asked as it is.
std::string declared_reason(const Description& description, const Operation& operation,
                            const nlohmann::json& parameters, const Tensors& inputs) {
  try {
    const Parameters checked = checked_parameters(operation, parameters);
    return declared_unsupported(description, operation.name, checked.with_defaults(),
                                std::string(name(output_dtype(operation, checked, inputs))));
  } catch (const Refused&) {
    return declared_unsupported(description, operation.name, nlohmann::json::object(), "");
  }
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

xt::xarray<Range> ranges(const Tensor& got, const std::vector<double>& limit) {
  xt::xarray<Range> range(xt::xarray<Range>::shape_type(got.shape().begin(), got.shape().end()));
  for (std::size_t i = 0; i < got.size(); ++i)
    range.data()[i] = range_around(got.value(i), limit[i]);
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

void Subject::start_law(const std::vector<std::string>& operations) {
  exclusions_ = 0;
  end_.reset();
  dtypes_.clear();
  for (Dtype dtype : kFloatDtypes)
    if (std::all_of(operations.begin(), operations.end(), [&](const std::string& operation) {
          return !has(operation) ||
                 declared_unsupported(implementation_.description(), operation,
                                      nlohmann::json::object(), std::string(name(dtype)))
                     .empty();
        }))
      dtypes_.push_back(dtype);
  if (dtypes_.empty()) dtypes_.assign(kFloatDtypes.begin(), kFloatDtypes.end());
}

const std::map<std::string, std::vector<nlohmann::json>>& Subject::declared(
    const std::string& operation) const {
  static const std::map<std::string, std::vector<nlohmann::json>> anything;
  const auto& operations = implementation_.description().operations;
  const auto found = operations.find(operation);
  return found == operations.end() ? anything : found->second.parameters;
}

Dtype Subject::drawn_dtype() const { return *one_of(dtypes_); }

Answer Subject::ask(const std::string& operation, const nlohmann::json& parameters,
                    const Tensors& inputs) {
  const std::string reason =
      declared_reason(implementation_.description(), find_operation(operation), parameters, inputs);
  if (!reason.empty()) {
    ++exclusions_;
    return {Answer::Kind::unsupported, {}, reason};
  }
  if (end_) throw Ended{};
  int& silent = silent_[operation];
  if (silent >= kPatience) {
    end_ = Answer{Answer::Kind::timeout,
                  {},
                  "not asked: the last " + std::to_string(kPatience) + " questions to " +
                      operation + " timed out"};
    throw Ended{};
  }
  asked_.push_back({operation, parameters, inputs});
  Answer answer = implementation_.run(asked_.back(), timeout_);
  silent = answer.kind == Answer::Kind::timeout ? silent + 1 : 0;
  exclusions_ += answer.kind == Answer::Kind::unsupported;
  if (answer.kind == Answer::Kind::crash || answer.kind == Answer::Kind::timeout ||
      answer.kind == Answer::Kind::broken) {
    end_ = answer;
    throw Ended{};
  }
  return answer;
}

Bounds Subject::limits(const Operation& operation, const Parameters& parameters,
                       const Tensors& inputs, const Tensors& outputs, Dtype dtype) const {
  if (!is_float(dtype)) return {};
  const Grade grade = grade_ ? *grade_ : possible_grades(operation, parameters, dtype).back();
  if (grade != Grade::P0)
    return bounds_of(operation, parameters, inputs,
                     rounding_of(grade, dtype, operation.has_phase(parameters)));
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
    std::vector<double> limit =
        bound == bounds.end() ? std::vector<double>(got.size(), 0) : bound->second.limit;
    measured[output] = {got, ranges(got, limit), std::move(limit)};
  }
  if (arithmetic_ == Arithmetic::formulas && !is_batched(operation, checked, inputs))
    for (const auto& [output, value] :
         operation.formula.at_60(checked, Inputs<Real60>(inputs), Recipe::exact))
      measured.at(output).range = formula_ranges(output, value, measured.at(output).range);
  return measured;
}

}  // namespace posproof::properties
