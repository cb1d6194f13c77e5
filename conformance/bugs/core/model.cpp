#include "conformance/bugs/core/model.hpp"

#include <algorithm>
#include <cstring>

#include "reference/core/registry.hpp"
#include "reference/core/truth.hpp"

namespace posproof::bugs {

#define POSPROOF_SCHEME(stem)     \
  namespace stem {                \
  std::vector<BugModel> models(); \
  }
#include "posproof/schemes_with_bugs.inc"
#undef POSPROOF_SCHEME

namespace {

/// Parameters as far as the specification takes them: enough to tell a batch from a single call.
Parameters loosely(const Operation& operation, const nlohmann::json& given) {
  try {
    return Parameters(operation.parameters, given);
  } catch (const Refused&) {
    if (operation.calls) throw;
    return {};
  }
}

Dtype float_dtype(const Request& request) {
  for (const auto& [name, tensor] : request.inputs)
    if (is_float(tensor.dtype())) return tensor.dtype();
  const auto dtype = request.parameters.find("dtype");
  return dtype != request.parameters.end() && dtype->is_string()
             ? dtype_from(dtype->get<std::string>())
             : Dtype::f64;
}

std::vector<Tensors> rows_of(const Tensors& inputs) {
  const std::size_t rows = inputs.begin()->second.rank() ? inputs.begin()->second.shape()[0] : 0;
  std::vector<Tensors> calls(rows);
  for (const auto& [name, tensor] : inputs) {
    if (rows == 0 || tensor.rank() == 0 || tensor.shape()[0] != rows)
      throw Refused(name + ": found shape " + to_string(tensor.shape()) +
                    ", allowed is the batch of the other inputs");
    for (std::size_t row = 0; row < rows; ++row) calls[row].emplace(name, tensor.slice(row));
  }
  return calls;
}

Tensor rounded(const Output<double>& output, const Tensors& inputs, Dtype dtype) {
  if (output.is_integer)
    return Tensor::integers(
        {output.integers.shape().begin(), output.integers.shape().end()},
        std::vector<std::int64_t>(output.integers.begin(), output.integers.end()));
  Tensor tensor(dtype, Shape(output.values.shape().begin(), output.values.shape().end()));
  const std::size_t bytes = byte_size(dtype);
  for (std::size_t i = 0; i < tensor.size(); ++i)
    if (output.copied_from.empty() || output.copied_from[i] < 0)
      tensor.set(i, output.values.data()[i]);
    else
      std::memcpy(static_cast<char*>(tensor.bytes()) + i * bytes,
                  static_cast<const char*>(inputs.at(output.source).bytes()) +
                      static_cast<std::size_t>(output.copied_from[i]) * bytes,
                  bytes);
  return tensor;
}

class Answered : public Implementation {
 public:
  Answered(Description description, Answering answering)
      : description_(std::move(description)), answering_(std::move(answering)) {}

  Answer start(std::chrono::milliseconds) override { return {Answer::Kind::outputs, {}, ""}; }
  const Description& description() const override { return description_; }

  Answer run(const Request& request, std::chrono::milliseconds) override {
    try {
      return {Answer::Kind::outputs, outputs_of(request), ""};
    } catch (const Refused& refused) {
      return {Answer::Kind::refused, {}, refused.what()};
    } catch (const std::exception& error) {
      return {Answer::Kind::error, {}, error.what()};
    }
  }

 private:
  Tensors outputs_of(const Request& request) {
    const Operation& operation = find_operation(request.operation);
    const bool batched =
        !request.inputs.empty() &&
        is_batched(operation, loosely(operation, request.parameters), request.inputs);
    const std::vector<Tensors> rows =
        batched ? rows_of(request.inputs) : std::vector<Tensors>{request.inputs};
    const Dtype dtype = float_dtype(request);
    std::map<std::string, std::vector<Tensor>> slices;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const Call call{request.operation, request.parameters, Inputs<double>(rows[row]), dtype, row,
                      &rows[row]};
      for (const auto& [name, output] : answering_(call))
        slices[name].push_back(rounded(output, rows[row], dtype));
    }
    Tensors outputs;
    for (auto& [name, tensors] : slices)
      outputs.emplace(name, batched ? Tensor::stack(tensors) : tensors[0]);
    return outputs;
  }

  Description description_;
  Answering answering_;
};

}  // namespace

const std::vector<BugModel>& all_models() {
  static const std::vector<BugModel> all = [] {
    std::vector<BugModel> models;
    const auto add = [&models](std::vector<BugModel> more) {
      std::move(more.begin(), more.end(), std::back_inserter(models));
    };
#define POSPROOF_SCHEME(stem) add(stem::models());
#include "posproof/schemes_with_bugs.inc"
#undef POSPROOF_SCHEME
    return models;
  }();
  return all;
}

Parameters checked(const Call& call) {
  const Operation& operation = find_operation(call.operation);
  Parameters parameters = checked_parameters(operation, call.parameters);
  if (call.tensors) check_inputs(operation, parameters, *call.tensors);
  return parameters;
}

Outputs<double> right(const Call& call) {
  return find_operation(call.operation).formula.estimate(checked(call), call.inputs, Recipe::exact);
}

std::unique_ptr<Implementation> implementation_of(Description description, Answering answering) {
  return std::make_unique<Answered>(std::move(description), std::move(answering));
}

std::unique_ptr<Implementation> implementation_of(const BugModel& model) {
  Description description{model.kind, POSPROOF_VERSION, "C++", false, {}};
  for (const Scheme* scheme : schemes())
    for (const Operation& operation : scheme->operations)
      description.operations[operation.name] = {};
  return implementation_of(std::move(description), model.make());
}

std::vector<std::string> affected(const BugModel& model) {
  std::vector<std::string> names = model.operations;
  const auto has = [&names](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const Scheme* scheme : schemes())
    for (const std::string& part : {scheme->attention.rotates, scheme->attention.bias,
                                    scheme->attention.key_term, scheme->attention.value_term})
      if (has(part) && !has("attention")) names.push_back("attention");
  return names;
}

std::function<Answering()> always(Answering answering) {
  return [answering = std::move(answering)] { return answering; };
}

double rounded_to(Dtype dtype, double x) { return round_to(x, format_of(dtype)); }

Call with_parameters(Call call, nlohmann::json parameters) {
  call.parameters = std::move(parameters);
  return call;
}

Call with_integers(Call call, const std::string& input, xt::xarray<std::int64_t> values) {
  call.inputs.set(input, std::move(values));
  return call;
}

Call with_parameter(Call call, const std::string& name, const nlohmann::json& value) {
  call.parameters[pointer_to(name)] = value;
  return call;
}

Call without_parameter(Call call, const std::string& name) {
  call.parameters.erase(name);
  return call;
}

Call with_positions(Call call, const std::string& input,
                    const std::function<std::int64_t(std::int64_t)>& position) {
  if (!call.inputs.has(input)) return call;
  xt::xarray<std::int64_t> at = call.inputs.integers(input);
  for (std::int64_t& each : at) each = position(each);
  return with_integers(std::move(call), input, std::move(at));
}

xt::xarray<std::int64_t> counted(std::size_t count) {
  return xt::arange<std::int64_t>(0, static_cast<std::int64_t>(count));
}

}  // namespace posproof::bugs
