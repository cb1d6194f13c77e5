#include "properties/core/calls.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "properties/core/generators.hpp"
#include "reference/core/registry.hpp"

namespace posproof::properties {
namespace {

using nlohmann::json;

bool allows(const ParameterSpec& spec, const json& value) {
  try {
    json given = json::object();
    given[pointer_to(spec.name)] = value;
    Parameters({spec}, given);
    return true;
  } catch (const Refused&) {
    return false;
  }
}

/// Values of a parameter on their own, the simplest first.
std::vector<json> values_of(const ParameterSpec& spec) {
  std::vector<json> values;
  const auto add = [&](const json& value) {
    if (allows(spec, value) && std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
  };
  switch (spec.kind) {
    case ParameterSpec::Kind::boolean:
      return {!spec.fallback.get<bool>(), spec.fallback};
    case ParameterSpec::Kind::choice:
      return std::vector<json>(spec.choices.begin(), spec.choices.end());
    case ParameterSpec::Kind::integer:
      for (int value : {2, 4, 8, 1, 3, 6, 12, 16, 7, 0, 20}) add(value);
      return values;
    case ParameterSpec::Kind::number:
      for (double value : {1., 2., 0.5, 10000., 1.5, 100., 8., 500000., 0.25}) add(value);
      return values;
    case ParameterSpec::Kind::object:
      return {};
  }
  return {};
}

/// Per parameter the values that an implementation takes; absent = any.
using Declared = std::map<std::string, std::vector<json>>;

/// What may stand for one parameter.
struct Choices {
  std::string name;
  bool must_be_given;
  std::vector<json> values;
};

Choices choices_of(const ParameterSpec& spec, const Declared& declared) {
  Choices choices{spec.name, spec.required, values_of(spec)};
  const auto found = declared.find(spec.name);
  if (found == declared.end()) return choices;
  const auto takes = [&](const json& value) {
    return std::find(found->second.begin(), found->second.end(), value) != found->second.end();
  };
  std::erase_if(choices.values, [&](const json& value) { return !takes(value); });
  choices.must_be_given =
      choices.must_be_given || (!spec.fallback.is_null() && !takes(spec.fallback));
  return choices;
}

/// One value for each of these, or none where it may be left out; not looked at together.
rc::Gen<json> independent_values(const std::vector<ParameterSpec>& specs,
                                 const Declared& declared = {}) {
  std::vector<Choices> all;
  for (const ParameterSpec& spec : specs) all.push_back(choices_of(spec, declared));
  // Fractions: 0 leaves out what may be, and takes the simplest value. The last one in three times
  // leaves out all that may be.
  return rc::gen::map(
      rc::gen::container<std::vector<std::int64_t>>(all.size() + 1, between(0, 999)),
      [all](const std::vector<std::int64_t>& draws) {
        json parameters = json::object();
        for (std::size_t i = 0; i < all.size(); ++i) {
          const auto count = static_cast<std::int64_t>(all[i].values.size());
          std::int64_t draw = draws[i];
          if (!all[i].must_be_given) draw = draws.back() < 333 ? -1 : 2 * draw - 1000;
          if (count == 0 || draw < 0) continue;
          parameters[pointer_to(all[i].name)] =
              all[i].values[static_cast<std::size_t>(draw * count / 1000)];
        }
        return parameters;
      });
}

/// The type of the outputs is drawn apart, and is no parameter of a part of attention.
std::vector<ParameterSpec> without_dtype(std::vector<ParameterSpec> specs) {
  std::erase_if(specs, [](const ParameterSpec& spec) { return spec.name == "dtype"; });
  return specs;
}

std::optional<double> less(const std::optional<double>& limit) {
  return limit ? std::optional<double>(*limit - 1) : std::nullopt;
}

bool is_valid(const Operation& operation, const json& parameters) {
  try {
    checked_parameters(operation, parameters);
    return true;
  } catch (const Refused&) {
    return false;
  }
}

/// The parameters of a scheme that acts in attention: what all its parts accept.
json drawn_scheme() {
  std::vector<const Scheme*> acting;
  for (const Scheme* scheme : schemes())
    if (scheme->acts_in_attention) acting.push_back(scheme);
  const Scheme& scheme = **one_of(acting);
  std::vector<const Operation*> parts;
  for (const std::string& part : {scheme.attention.rotates, scheme.attention.bias,
                                  scheme.attention.key_term, scheme.attention.value_term})
    if (!part.empty()) parts.push_back(&find_operation(part));
  json drawn{{"name", scheme.name}};
  if (parts.empty()) return drawn;
  drawn["parameters"] = *rc::gen::suchThat(
      independent_values(without_dtype(parts[0]->parameters)), [parts](const json& parameters) {
        return std::all_of(parts.begin(), parts.end(),
                           [&](const Operation* part) { return is_valid(*part, parameters); });
      });
  return drawn;
}

/// Extents of the symbols that the parameters leave free.
std::size_t drawn_extent(const InputSpec& spec, const std::string& symbol,
                         const std::vector<InputSpec>& specs) {
  const bool is_table = std::any_of(specs.begin(), specs.end(),
                                    [&](const InputSpec& each) { return each.rows_of == symbol; });
  if (is_table) return *count_between(1, 12);
  // Sometimes longer than a block of a kernel.
  if (symbol != "D" && *between(0, 9) == 9) return *count_between(5, 19);
  return *count_between(1, spec.kind == InputSpec::Kind::real && symbol == "D" ? 6 : 4);
}

/// One position after another from the first on, as most calls have them: in order, or in any order
/// between the ends, which a fast path for runs may take for one.
void run_on(std::vector<std::int64_t>& positions, std::int64_t limit, std::int64_t how) {
  if (how < 2) return;
  const auto count = static_cast<std::int64_t>(positions.size());
  const std::int64_t first = std::min(positions[0], limit - count);
  std::iota(positions.begin(), positions.end(), first);
  if (how == 3 && count > 3) std::reverse(positions.begin() + 1, positions.end() - 1);
}

Tensor drawn_integers(const InputSpec& spec, const Shape& shape, std::int64_t limit,
                      const Dims& dims) {
  const auto values = spec.kind == InputSpec::Kind::mask ? between(0, 3)
                      : !spec.rows_of.empty()
                          ? between(0, static_cast<std::int64_t>(dims.at(spec.rows_of)) - 1)
                      : spec.kind == InputSpec::Kind::integer ? positions(2 * limit)
                                                              : positions(limit);
  std::vector<std::int64_t> drawn =
      *rc::gen::container<std::vector<std::int64_t>>(element_count(shape), values);
  if (spec.kind == InputSpec::Kind::position && spec.rows_of.empty() && drawn.size() > 1)
    run_on(drawn, limit, *between(0, 3));
  if (spec.kind == InputSpec::Kind::mask)
    for (std::int64_t& visible : drawn) visible = visible == 1 ? 0 : 1;  // shrinks towards visible
  return Tensor::integers(shape, drawn);
}

Tensor drawn_input(const InputSpec& spec, const Shape& shape, Dtype dtype, std::int64_t limit,
                   int exponent, const Dims& dims) {
  return spec.kind == InputSpec::Kind::real ? *tensors(dtype, shape, exponent)
                                            : drawn_integers(spec, shape, limit, dims);
}

std::int64_t drawn_limit(Dtype dtype) {
  // Half-precision scores far apart overflow on the way.
  return dtype == Dtype::f16
             ? *one_of(std::vector<std::int64_t>{64, 4096})
             : *one_of(std::vector<std::int64_t>{64, 4096, 1 << 20, (std::int64_t{1} << 31) - 1});
}

/// The operation answers, and no result comes near overflow.
bool can_be_answered(const Call& call) {
  try {
    const Parameters parameters = call.checked();
    check_inputs(*call.operation, parameters, call.inputs);
    const Dtype dtype = output_dtype(*call.operation, parameters, call.inputs);
    const double largest =
        is_float(dtype) ? std::ldexp(1, std::min(format_of(dtype).max_exponent - 2, 1000)) : 0;
    const bool batched = is_batched(*call.operation, parameters, call.inputs);
    const std::size_t count = batched ? call.inputs.begin()->second.shape()[0] : 1;
    for (std::size_t b = 0; b < count; ++b) {
      Tensors one;
      for (const auto& [name, tensor] : call.inputs)
        one.emplace(name, batched ? tensor.slice(b) : tensor);
      for (const auto& [name, output] :
           call.operation->formula.estimate(parameters, Inputs<double>(one), Recipe::exact))
        if (!output.is_integer)
          for (double value : output.values)
            if (!(std::fabs(value) < largest)) return false;
    }
    return true;
  } catch (const Refused&) {
    return false;
  }
}

}  // namespace

json drawn_parameters(const Subject& subject, const Operation& operation) {
  json parameters = *rc::gen::suchThat(
      independent_values(operation.parameters, subject.declared(operation.name)),
      [&operation](const json& given) {
        const bool has_object = std::any_of(
            operation.parameters.begin(), operation.parameters.end(),
            [](const ParameterSpec& spec) { return spec.kind == ParameterSpec::Kind::object; });
        return has_object || is_valid(operation, given);
      });
  for (const ParameterSpec& spec : operation.parameters)
    if (spec.kind == ParameterSpec::Kind::object) parameters[spec.name] = drawn_scheme();
  return parameters;
}

json drawn_refusal(const Operation& operation, json parameters) {
  if (operation.calls) {
    const auto calls = operation.calls(checked_parameters(operation, parameters));
    RC_PRE(!calls.empty());
    const auto& [place, called] = calls[*count_between(0, calls.size() - 1)];
    json& inner = parameters[pointer_to(place)];
    inner = drawn_refusal(find_operation(called), inner.is_null() ? json::object() : inner);
    RC_PRE(!is_valid(operation, parameters));
    return parameters;
  }
  std::vector<std::pair<std::string, json>> outside;
  for (const ParameterSpec& spec : operation.parameters) {
    if (!spec.is_refused_outside) continue;
    if (spec.kind == ParameterSpec::Kind::choice) outside.emplace_back(spec.name, "neither");
    for (const auto& [limit, value] : {std::pair{spec.above, spec.above},
                                       {spec.above, less(spec.above)},
                                       {spec.at_least, less(spec.at_least)}})
      if (limit) outside.emplace_back(spec.name, static_cast<std::int64_t>(*value));
  }
  if (!outside.empty() && (!operation.refuse || *rc::gen::arbitrary<bool>())) {
    const auto [name, value] = *one_of(outside);
    parameters[pointer_to(name)] = value;
  } else {
    // Required ones stay: the inputs were drawn for them.
    const json valid = parameters;
    parameters = *independent_values(without_dtype(operation.parameters));
    for (const ParameterSpec& spec : operation.parameters)
      if (spec.required) parameters[pointer_to(spec.name)] = valid.at(pointer_to(spec.name));
  }
  RC_PRE(!is_valid(operation, parameters));
  return parameters;
}

Call drawn_call(Subject& subject, const Operation& operation, const CallOptions& options) {
  Call call{&operation, drawn_parameters(subject, operation), {}};
  const Dtype dtype = subject.drawn_dtype();
  const Parameters parameters = [&] {
    if (!operation.has_float_inputs(call.checked()))
      for (const ParameterSpec& spec : operation.parameters)
        if (spec.name == "dtype") call.parameters["dtype"] = name(dtype);
    return call.checked();
  }();
  const std::vector<InputSpec> specs = operation.inputs(parameters);
  Dims dims = operation.dims ? operation.dims(parameters) : Dims{};
  const std::size_t rows = options.batched ? *count_between(2, 3) : 0;
  const std::int64_t limit = drawn_limit(dtype);
  const FloatFormat format = format_of(dtype);
  const int exponent =
      options.subnormal ? format.min_exponent + *one_of(std::vector<int>{format.precision + 4, 4})
                        : 1;
  for (const InputSpec& spec : specs) {
    if (spec.optional && !options.every_input && *rc::gen::arbitrary<bool>()) continue;
    Shape shape = options.batched ? Shape{rows} : Shape{};
    for (const std::string& symbol : spec.shape) {
      if (!dims.count(symbol)) dims[symbol] = drawn_extent(spec, symbol, specs);
      shape.push_back(dims.at(symbol));
    }
    call.inputs.emplace(spec.name, drawn_input(spec, shape, dtype, limit, exponent, dims));
  }
  RC_PRE(can_be_answered(call));
  return call;
}

Call redrawn(Subject& subject, const Call& call) {
  const Parameters parameters = call.checked();
  const Dtype dtype = output_dtype(*call.operation, parameters, call.inputs);
  const std::int64_t limit = drawn_limit(is_float(dtype) ? dtype : subject.drawn_dtype());
  Call other{call.operation, call.parameters, {}};
  Dims dims;
  for (const InputSpec& spec : call.operation->inputs(parameters))
    if (const auto found = call.inputs.find(spec.name); found != call.inputs.end())
      for (std::size_t axis = 0; axis < spec.shape.size(); ++axis)
        dims[spec.shape[axis]] = found->second.shape()[axis];
  for (const InputSpec& spec : call.operation->inputs(parameters))
    if (const auto found = call.inputs.find(spec.name); found != call.inputs.end())
      other.inputs.emplace(spec.name, drawn_input(spec, found->second.shape(),
                                                  found->second.dtype(), limit, 1, dims));
  RC_PRE(can_be_answered(other));
  return other;
}

std::map<std::string, Measured> measured(Subject& subject, const Call& call) {
  return subject.measure(call.operation->name, call.parameters, call.inputs);
}

std::optional<std::size_t> axis_of(const std::vector<std::string>& shape,
                                   const std::string& symbol) {
  const auto found = std::find(shape.begin(), shape.end(), symbol);
  if (found == shape.end()) return std::nullopt;
  return static_cast<std::size_t>(found - shape.begin());
}

Call entries_of(const Call& call, const std::string& symbol,
                const std::vector<std::size_t>& entries) {
  Call part{call.operation, call.parameters, {}};
  for (const InputSpec& spec : call.operation->inputs(call.checked())) {
    const auto found = call.inputs.find(spec.name);
    if (found == call.inputs.end()) continue;
    const auto axis = axis_of(spec.shape, symbol);
    part.inputs.emplace(spec.name, axis ? reordered(found->second, entries, *axis) : found->second);
  }
  return part;
}

std::map<std::string, std::size_t> free_axes(const Call& call) {
  const Parameters parameters = call.checked();
  const Dims fixed = call.operation->dims ? call.operation->dims(parameters) : Dims{};
  std::map<std::string, std::size_t> axes;
  for (const std::string& symbol : call.operation->independent) {
    if (fixed.count(symbol)) continue;
    bool all_given = true;
    std::size_t extent = 1;
    for (const InputSpec& spec : call.operation->inputs(parameters)) {
      const auto axis = axis_of(spec.shape, symbol);
      if (!axis) continue;
      const auto found = call.inputs.find(spec.name);
      // Positions that are left out count from the first entry of the call.
      if (found == call.inputs.end())
        all_given = all_given && spec.kind != InputSpec::Kind::position;
      else
        extent = found->second.shape()[*axis];
    }
    if (all_given && extent > 1) axes.emplace(symbol, extent);
  }
  return axes;
}

}  // namespace posproof::properties
