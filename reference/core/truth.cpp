#include "reference/core/truth.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "reference/core/phase.hpp"

namespace posproof {
namespace {

std::string shown(const std::vector<std::string>& symbols, bool batched) {
  std::string text = batched ? "[B" : "[";
  for (const std::string& symbol : symbols) text += (text.size() > 1 ? "," : "") + symbol;
  return text + "]";
}

void check_position(const std::string& input, const Tensor& tensor) {
  for (std::size_t i = 0; i < tensor.size(); ++i)
    if (tensor.integer(i) > 2147483647 || tensor.integer(i) < -2147483647)
      throw Refused(input + ": found position " + std::to_string(tensor.integer(i)) +
                    ", allowed is -2^31 < position < 2^31");
}

void check_kind(const InputSpec& spec, const Tensor& tensor) {
  const bool wants_float = spec.kind == InputSpec::Kind::real;
  if (is_float(tensor.dtype()) != wants_float)
    throw Refused(spec.name + ": found " + std::string(name(tensor.dtype())) + ", allowed is " +
                  (wants_float ? "a floating point type" : "int64 or int32"));
  if (spec.kind == InputSpec::Kind::position) check_position(spec.name, tensor);
  if (spec.kind == InputSpec::Kind::mask)
    for (std::size_t i = 0; i < tensor.size(); ++i)
      if (tensor.integer(i) != 0 && tensor.integer(i) != 1)
        throw Refused(spec.name + ": found " + std::to_string(tensor.integer(i)) +
                      ", allowed are 0 and 1");
  if (spec.kind == InputSpec::Kind::integer)
    for (std::size_t i = 0; i < tensor.size(); ++i)
      if (tensor.integer(i) > std::int64_t{1} << 32 || tensor.integer(i) < -(std::int64_t{1} << 32))
        throw Refused(spec.name + ": found " + std::to_string(tensor.integer(i)) +
                      ", allowed is -2^32 to 2^32");
}

void check_shape(const InputSpec& spec, const Tensor& tensor, bool batched, Dims& dims) {
  if (spec.shape == std::vector<std::string>{"..."}) return;
  std::vector<std::string> symbols = spec.shape;
  if (batched) symbols.insert(symbols.begin(), "B");
  bool fits = tensor.rank() == symbols.size();
  if (batched && fits && tensor.shape()[0] == 0)
    throw Refused(spec.name + ": found an empty batch, allowed is B >= 1");
  for (std::size_t axis = 0; fits && axis < symbols.size(); ++axis)
    fits =
        dims.try_emplace(symbols[axis], tensor.shape()[axis]).first->second == tensor.shape()[axis];
  if (fits) return;
  std::string message = spec.name + ": found shape " + to_string(tensor.shape()) + ", allowed is " +
                        shown(spec.shape, batched);
  const char* separator = " with ";
  for (const std::string& symbol : symbols)
    if (dims.count(symbol)) {
      message += separator + symbol + " = " + std::to_string(dims.at(symbol));
      separator = ", ";
    }
  throw Refused(message);
}

/// One call without the batch axis per entry of the batch.
std::vector<Tensors> unbatched(const Operation& operation, const Parameters& parameters,
                               const Tensors& inputs) {
  if (!is_batched(operation, parameters, inputs)) return {inputs};
  std::vector<Tensors> calls(inputs.begin()->second.shape()[0]);
  for (std::size_t b = 0; b < calls.size(); ++b)
    for (const auto& [name, tensor] : inputs) calls[b].emplace(name, tensor.slice(b));
  return calls;
}

template <class R>
bool round_output(const Output<R>& output, const Tensors& inputs, Dtype dtype, bool tie_to_even,
                  TrueOutput& truth) {
  if (output.is_integer) {
    const Shape shape(output.integers.shape().begin(), output.integers.shape().end());
    truth.exact = Tensor::integers(
        shape, std::vector<std::int64_t>(output.integers.begin(), output.integers.end()));
    truth.rounded = truth.exact;
    truth.copied.assign(truth.exact.size(), 0);
    return true;
  }
  const Shape shape(output.values.shape().begin(), output.values.shape().end());
  truth.exact = Tensor(Dtype::f64, shape);
  truth.rounded = Tensor(dtype, shape);
  truth.copied.assign(truth.exact.size(), 0);
  const FloatFormat wide = format_of(Dtype::f64), narrow = format_of(dtype);
  for (std::size_t i = 0; i < truth.exact.size(); ++i) {
    if (!output.copied_from.empty() && output.copied_from[i] >= 0) {
      const Tensor& source = inputs.at(output.source);
      const auto from = static_cast<std::size_t>(output.copied_from[i]);
      const std::size_t bytes = byte_size(dtype);
      truth.copied[i] = 1;
      truth.exact.set(i, source.value(from));
      std::memcpy(static_cast<char*>(truth.rounded.bytes()) + i * bytes,
                  static_cast<const char*>(source.bytes()) + from * bytes, bytes);
      continue;
    }
    double exact, rounded;
    if (!round_certainly(output.values.data()[i], wide, tie_to_even, exact) ||
        !round_certainly(output.values.data()[i], narrow, tie_to_even, rounded))
      return false;
    // A computed zero has no sign: x·cos 0 − y·sin 0 may reach it from either side.
    truth.exact.set(i, exact == 0 ? 0.0 : exact);
    truth.rounded.set(i, rounded == 0 ? 0.0 : rounded);
  }
  return true;
}

template <class R>
std::optional<Truth> attempt(const Operation& operation, const Parameters& parameters,
                             const Tensors& inputs, Dtype dtype, Recipe recipe, bool tie_to_even) {
  try {
    Truth truth;
    const Outputs<R> outputs = operation.formula.in<R>()(parameters, Inputs<R>(inputs), recipe);
    for (const auto& [name, output] : outputs)
      if (!round_output(output, inputs, dtype, tie_to_even, truth[name])) return std::nullopt;
    return truth;
  } catch (const Undecided&) {
    return std::nullopt;
  }
}

Truth by_rising_precision(const Operation& operation, const Parameters& parameters,
                          const Tensors& inputs, Dtype dtype, Recipe recipe) {
  if (auto truth = attempt<Real60>(operation, parameters, inputs, dtype, recipe, false))
    return *truth;
  if (auto truth = attempt<Real200>(operation, parameters, inputs, dtype, recipe, false))
    return *truth;
  if (auto truth = attempt<Real1000>(operation, parameters, inputs, dtype, recipe,
                                     operation.straddling_is_a_tie))
    return *truth;
  throw std::runtime_error(operation.name + ": 1000 digits do not decide the rounding of a result");
}

Truth stacked(const std::vector<Truth>& truths) {
  Truth whole;
  for (const auto& [name, first] : truths[0]) {
    std::vector<Tensor> exact, rounded;
    std::vector<std::uint8_t> copied;
    for (const Truth& truth : truths) {
      const TrueOutput& output = truth.at(name);
      exact.push_back(output.exact);
      rounded.push_back(output.rounded);
      copied.insert(copied.end(), output.copied.begin(), output.copied.end());
    }
    whole[name] = {Tensor::stack(exact), Tensor::stack(rounded), std::move(copied)};
  }
  return whole;
}

template <class OneCall>
Truth over_the_batch(const Operation& operation, const Parameters& parameters,
                     const Tensors& inputs, OneCall one_call) {
  check_inputs(operation, parameters, inputs);
  const std::vector<Tensors> calls = unbatched(operation, parameters, inputs);
  if (calls.size() == 1 && !is_batched(operation, parameters, inputs)) return one_call(calls[0]);
  std::vector<Truth> truths;
  for (const Tensors& call : calls) truths.push_back(one_call(call));
  return stacked(truths);
}

}  // namespace

Parameters checked_parameters(const Operation& operation, const nlohmann::json& given) {
  Parameters parameters(operation.parameters, given);
  if (operation.refuse) operation.refuse(parameters);
  return parameters;
}

bool is_batched(const Operation& operation, const Parameters& parameters, const Tensors& inputs) {
  if (!operation.may_be_batched) return false;
  for (const InputSpec& spec : operation.inputs(parameters))
    if (const auto found = inputs.find(spec.name); found != inputs.end())
      return found->second.rank() == spec.shape.size() + 1;
  return false;
}

void check_inputs(const Operation& operation, const Parameters& parameters, const Tensors& inputs) {
  const std::vector<InputSpec> specs = operation.inputs(parameters);
  for (const auto& [name, tensor] : inputs)
    if (std::none_of(specs.begin(), specs.end(),
                     [&name = name](const InputSpec& spec) { return spec.name == name; })) {
      std::string known;
      for (const InputSpec& spec : specs) known += (known.empty() ? "" : ", ") + spec.name;
      throw Refused(name + ": unknown input of " + operation.name + "; known are " +
                    (known.empty() ? "none" : known));
    }
  const bool batched = is_batched(operation, parameters, inputs);
  Dims dims = operation.dims ? operation.dims(parameters) : Dims{};
  std::optional<std::pair<std::string, Dtype>> float_input;
  for (const InputSpec& spec : specs) {
    const auto found = inputs.find(spec.name);
    if (found == inputs.end()) {
      if (spec.optional) continue;
      throw Refused(spec.name + ": missing input of " + operation.name + ", shape " +
                    shown(spec.shape, batched));
    }
    const Tensor& tensor = found->second;
    check_kind(spec, tensor);
    check_shape(spec, tensor, batched, dims);
    if (!is_float(tensor.dtype())) continue;
    if (float_input && float_input->second != tensor.dtype())
      throw Refused(spec.name + ": found " + std::string(name(tensor.dtype())) +
                    ", allowed is the type of " + float_input->first + ", " +
                    std::string(name(float_input->second)));
    float_input = {spec.name, tensor.dtype()};
  }
}

Dtype output_dtype(const Operation& operation, const Parameters& parameters,
                   const Tensors& inputs) {
  if (!operation.outputs.empty() && operation.outputs[0].integer) return Dtype::i64;
  for (const InputSpec& spec : operation.inputs(parameters))
    if (spec.kind == InputSpec::Kind::real)
      if (const auto found = inputs.find(spec.name); found != inputs.end())
        return found->second.dtype();
  return dtype_from(parameters.text("dtype"));
}

Truth truth_of(const Operation& operation, const Parameters& parameters, const Tensors& inputs,
               Recipe recipe) {
  return over_the_batch(operation, parameters, inputs, [&](const Tensors& call) {
    return by_rising_precision(operation, parameters, call,
                               output_dtype(operation, parameters, call), recipe);
  });
}

Truth second_truth_of(const Operation& operation, const Parameters& parameters,
                      const Tensors& inputs, Recipe recipe) {
  return over_the_batch(operation, parameters, inputs, [&](const Tensors& call) {
    return *attempt<Second>(operation, parameters, call, output_dtype(operation, parameters, call),
                            recipe, true);
  });
}

Bounds bounds_of(const Operation& operation, const Parameters& parameters, const Tensors& inputs,
                 const Rounding& rounding) {
  Bounds whole;
  if (!operation.bound) return whole;
  for (const Tensors& call : unbatched(operation, parameters, inputs)) {
    const Inputs<double> seen(call);
    const Outputs<double> estimate = operation.formula.estimate(parameters, seen, Recipe::exact);
    for (auto& [name, bound] : operation.bound(parameters, seen, estimate, rounding)) {
      Bound& all = whole[name];
      all.limit.insert(all.limit.end(), bound.limit.begin(), bound.limit.end());
      all.evidence.insert(all.evidence.end(), bound.evidence.begin(), bound.evidence.end());
    }
  }
  return whole;
}

}  // namespace posproof
