#include <fmt/format.h>

#include <iostream>

#include "conformance/cli/commands.hpp"
#include "conformance/judge.hpp"
#include "conformance/open.hpp"
#include "conformance/report.hpp"
#include "conformance/serve.hpp"
#include "fixtures/core/files.hpp"
#include "fixtures/core/tensor_json.hpp"
#include "reference/core/registry.hpp"

namespace posproof {
namespace {

using nlohmann::json;

struct Line {
  std::string operation, parameters = "{}", with, format = "text";
  std::vector<std::string> inputs;
};

/// Numbers of nested JSON arrays and the shape that they make.
void flatten(const std::string& name, const json& value, std::size_t depth, Shape& shape,
             std::vector<json>& flat) {
  if (!value.is_array()) {
    if (depth != shape.size()) throw CallError("--input " + name + ": rows of unequal length");
    flat.push_back(value);
    return;
  }
  if (depth == shape.size() && flat.empty()) shape.push_back(value.size());
  if (depth >= shape.size() || value.size() != shape[depth])
    throw CallError("--input " + name + ": rows of unequal length");
  for (const json& entry : value) flatten(name, entry, depth + 1, shape, flat);
}

Tensor tensor_of(const InputSpec& spec, Shape shape, const std::vector<json>& flat) {
  return tensor_from_json({{"dtype", spec.kind == InputSpec::Kind::real ? "f64" : "int64"},
                           {"shape", shape},
                           {"data", flat}},
                          "--input " + spec.name);
}

/// Splits "0,1,4096" into numbers, each as JSON has it.
std::vector<json> numbers_of(const std::string& name, const std::string& text) {
  std::vector<json> flat;
  std::stringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    const json number = parse_json(word);
    if (number.is_number())
      flat.push_back(number);
    else if (word == "NaN" || word == "Infinity" || word == "-Infinity" || word == "-0")
      flat.push_back(word);
    else
      throw CallError("--input " + name + ": '" + word + "' is not a number");
  }
  return flat;
}

/// The shape of a bare list: extents that parameters and other inputs fix, one that follows from
/// the count, and 1 for the rest.
Shape shape_of_list(const InputSpec& spec, std::size_t count, const Dims& known) {
  if (spec.shape.size() == 1) return {count};
  Shape shape;
  std::size_t product = 1;
  for (const std::string& symbol : spec.shape) {
    const auto found = known.find(symbol);
    shape.push_back(found == known.end() ? 0 : found->second);
    if (shape.back()) product *= shape.back();
  }
  std::size_t rest = product && count % product == 0 ? count / product : 1;
  for (std::size_t& extent : shape)
    if (!extent) {
      extent = rest;
      rest = 1;
    }
  return shape;
}

Tensors inputs_of(const Operation& operation, const Parameters& parameters,
                  const std::vector<std::string>& texts) {
  const std::vector<InputSpec> specs = operation.inputs(parameters);
  Dims known = operation.dims ? operation.dims(parameters) : Dims{};
  Tensors inputs;
  std::vector<std::pair<const InputSpec*, std::vector<json>>> lists;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) throw CallError("--input: '" + text + "' is not NAME=VALUE");
    const std::string name = text.substr(0, equals);
    std::string value = text.substr(equals + 1);
    const auto spec = std::find_if(specs.begin(), specs.end(),
                                   [&name](const InputSpec& each) { return each.name == name; });
    if (spec == specs.end()) {
      std::string names;
      for (const InputSpec& each : specs) names += (names.empty() ? "" : ", ") + each.name;
      throw CallError("--input: " + operation.name + " has no input '" + name + "'; it has " +
                      (names.empty() ? "none" : names));
    }
    if (!value.empty() && value[0] == '@') value = read_file(value.substr(1));
    if (value.find_first_of("[{") == std::string::npos) {
      lists.emplace_back(&*spec, numbers_of(name, value));
      if (spec->shape.size() == 1) known[spec->shape[0]] = lists.back().second.size();
      continue;
    }
    const json parsed = parse_json(value);
    if (parsed.is_discarded()) throw CallError("--input " + name + ": is not JSON");
    if (parsed.is_object()) {
      inputs[name] = tensor_from_json(parsed, "--input " + name);
    } else {
      Shape shape;
      std::vector<json> flat;
      flatten(name, parsed, 0, shape, flat);
      inputs[name] = tensor_of(*spec, shape, flat);
    }
  }
  for (const auto& [spec, flat] : lists)
    inputs[spec->name] = tensor_of(*spec, shape_of_list(*spec, flat.size(), known), flat);
  return inputs;
}

std::string shown(const std::string& name, const Tensor& tensor) {
  std::string text =
      fmt::format("{} {} {}\n", name, posproof::name(tensor.dtype()), to_string(tensor.shape()));
  const std::size_t row = tensor.rank() ? tensor.shape().back() : 1;
  const json data = to_json(tensor)["data"];
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    if (row && i % row == 0 && tensor.rank() > 1) {
      Shape at = index_of(i, tensor.shape());
      at.pop_back();
      text += to_string(at) + " ";
    }
    text += data[i].is_string() ? data[i].get<std::string>() : data[i].dump();
    text += row && (i + 1) % row == 0 ? "\n" : " ";
  }
  return text;
}

/// What another implementation answered, and how that is judged.
struct Other {
  std::string verdict, message;
  Tensors outputs;
};

Other ask_other(const std::string& name, const Request& request, const Expectation& expectation) {
  const auto implementation = open_implementation(name);
  const std::chrono::seconds timeout(60);
  Answer answer = implementation->start(timeout);
  if (answer.kind == Answer::Kind::outputs) answer = implementation->run(request, timeout);
  if (answer.kind != Answer::Kind::outputs)
    return {std::string(posproof::name(verdict_of(answer.kind))), answer.message, {}};
  const std::string wrong = malformed(expectation, answer.outputs);
  if (!wrong.empty()) return {"error", wrong, answer.outputs};
  const Judgement judgement = judge(expectation, request.inputs, answer.outputs);
  if (!judgement.pass) return {"fail", to_string(judgement.worst), answer.outputs};
  return {"pass",
          judgement.grade ? posproof::name(*judgement.grade, expectation.has_phase) : "no grade",
          answer.outputs};
}

int run(const Line& line) {
  const Operation& operation = find_operation(line.operation);
  const json given = parse_json(line.parameters);
  if (given.is_discarded()) throw CallError("parameters: '" + line.parameters + "' is not JSON");
  const Parameters parameters = checked_parameters(operation, given);
  const Tensors inputs = inputs_of(operation, parameters, line.inputs);
  const Expectation expectation = expectation_of(line.operation, given, inputs);
  Tensors outputs;
  for (const auto& [name, truth] : expectation.truth) outputs.emplace(name, truth.rounded);
  std::optional<Other> other;
  if (!line.with.empty())
    other = ask_other(line.with, {line.operation, given, inputs}, expectation);
  if (line.format == "json") {
    json printed{{"outputs", to_json(outputs)}};
    if (other)
      printed["with"] = {{"implementation", line.with},
                         {"verdict", other->verdict},
                         {"message", other->message},
                         {"outputs", to_json(other->outputs)}};
    std::cout << printed.dump() << "\n";
  } else {
    for (const auto& [name, tensor] : outputs) std::cout << shown(name, tensor);
    if (other) {
      std::cout << "with " << line.with << "\n";
      for (const auto& [name, tensor] : other->outputs) std::cout << shown(name, tensor);
      std::cout << other->verdict << ": " << other->message << "\n";
    }
  }
  return !other || other->verdict == "pass" ? 0 : 1;
}

}  // namespace

Command add_compute(CLI::App& app) {
  auto line = std::make_shared<Line>();
  app.add_option("OPERATION", line->operation, "As `posproof list` names it")->required();
  app.add_option("PARAMETERS", line->parameters, "A JSON object");
  app.add_option("--input", line->inputs,
                 "NAME=0,1,4096 or NAME=[[1,2],[3,4]] or NAME={TENSOR} or NAME=@FILE "
                 "(may be repeated)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--with", line->with, "Also ask this implementation and judge its answer");
  app.add_option("--format", line->format, "text or json")->check(CLI::IsMember({"text", "json"}));
  return [line] { return run(*line); };
}

Command add_serve(CLI::App& app) {
  auto implementation = std::make_shared<std::string>();
  app.add_option("IMPLEMENTATION", *implementation, "What answers: builtin:reference is the truth")
      ->required();
  return [implementation] {
    const auto opened = open_implementation(*implementation);
    const Answer started = opened->start(std::chrono::seconds(60));
    if (started.kind != Answer::Kind::outputs) {
      std::cerr << "posproof: " << *implementation << ": " << started.message << "\n";
      return 1;
    }
    return serve(*opened, std::cin, std::cout);
  };
}

}  // namespace posproof
