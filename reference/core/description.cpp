#include "reference/core/implementation.hpp"

#include <algorithm>
#include <stdexcept>

#include "reference/core/registry.hpp"

namespace posproof {
namespace {

using nlohmann::json;

[[noreturn]] void wrong(const std::string& where, const json& found, const std::string& allowed) {
  std::string shown = found.is_null() ? "nothing" : found.dump(-1, ' ', true);
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  throw std::invalid_argument(where + ": found " + shown + ", allowed is " + allowed);
}

std::string read_text(const json& object, const char* key, const std::string& where) {
  const json value = object.value(key, json());
  if (!value.is_string()) wrong(where + "." + key, value, "a string");
  std::string text = value.get<std::string>();
  for (char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      wrong(where + "." + key, value, "a string without control characters");
  return text;
}

/// A misspelt type would exclude every case without a word.
std::string read_dtype(const json& value, const std::string& where) {
  try {
    if (value.is_string()) return std::string(name(dtype_from(value.get<std::string>())));
  } catch (const std::invalid_argument&) {
    // Said below, with the place.
  }
  wrong(where, value, "one of f64, f32, f16, bf16, int64, int32");
}

DeclaredOperation read_operation(const json& value, const std::string& where) {
  if (!value.is_object()) wrong(where, value, "an object with dtypes and parameters");
  DeclaredOperation operation;
  const json dtypes = value.value("dtypes", json::array());
  if (!dtypes.is_array()) wrong(where + ".dtypes", dtypes, "an array of types");
  for (const json& dtype : dtypes) operation.dtypes.push_back(read_dtype(dtype, where + ".dtypes"));
  const json parameters = value.value("parameters", json::object());
  if (!parameters.is_object()) wrong(where + ".parameters", parameters, "an object of arrays");
  for (const auto& [name, values] : parameters.items()) {
    if (!values.is_array()) wrong(where + ".parameters." + name, values, "an array of values");
    if (name.find_first_of("~/") != std::string::npos)
      wrong(where + ".parameters", name, "parameters, dots reaching inside");
    operation.parameters[name] = values.get<std::vector<json>>();
  }
  return operation;
}

}  // namespace

json to_json(const Description& description) {
  json operations = json::object();
  for (const auto& [name, operation] : description.operations) {
    json entry = json::object();
    if (!operation.dtypes.empty()) entry["dtypes"] = operation.dtypes;
    if (!operation.parameters.empty()) entry["parameters"] = operation.parameters;
    operations[name] = entry;
  }
  return {{"protocol", 1},
          {"implementation",
           {{"name", description.name},
            {"version", description.version},
            {"language", description.language}}},
          {"base64", description.base64},
          {"operations", operations}};
}

Description description_from_json(const json& answer) {
  if (!answer.is_object()) wrong("start", answer, "a JSON object");
  const json protocol = answer.value("protocol", json());
  if (protocol != 1) wrong("protocol", protocol, "1");
  const json who = answer.value("implementation", json());
  if (!who.is_object()) wrong("implementation", who, "an object with name, version and language");
  Description description;
  description.name = read_text(who, "name", "implementation");
  description.version = read_text(who, "version", "implementation");
  description.language = read_text(who, "language", "implementation");
  const json base64 = answer.value("base64", json(false));
  if (!base64.is_boolean()) wrong("base64", base64, "true or false");
  description.base64 = base64.get<bool>();
  const json operations = answer.value("operations", json());
  if (!operations.is_object()) wrong("operations", operations, "an object");
  for (const auto& [name, value] : operations.items())
    description.operations[name] = read_operation(value, "operations." + name);
  return description;
}

std::string declared_unsupported(const Description& description, const std::string& operation,
                                 const json& parameters, const std::string& dtype) {
  const auto found = description.operations.find(operation);
  if (found == description.operations.end()) return "does not declare " + operation;
  const DeclaredOperation& has = found->second;
  const bool is_a_float = dtype == "f64" || dtype == "f32" || dtype == "f16" || dtype == "bf16";
  if (is_a_float && !has.dtypes.empty() &&
      std::count(has.dtypes.begin(), has.dtypes.end(), dtype) == 0)
    return "does not declare " + dtype + " for " + operation;
  for (const auto& [name, values] : has.parameters) {
    const auto pointer = pointer_to(name);
    if (!parameters.contains(pointer)) continue;
    const json& value = parameters.at(pointer);
    if (std::count(values.begin(), values.end(), value) == 0)
      return "does not declare " + name + " = " + value.dump() + " for " + operation;
  }
  return "";
}

std::vector<std::string> unknown_names(const Description& description) {
  std::vector<std::string> notes;
  for (const auto& [name, declared] : description.operations) {
    const Operation* operation = nullptr;
    for (const Scheme* scheme : schemes())
      for (const Operation& each : scheme->operations)
        if (each.name == name) operation = &each;
    if (!operation) {
      notes.push_back("it declares " + name + ", which is no operation here");
      continue;
    }
    for (const auto& [parameter, values] : declared.parameters) {
      const auto spec =
          std::find_if(operation->parameters.begin(), operation->parameters.end(),
                       [&name = parameter](const ParameterSpec& each) {
                         return each.name == name ||
                                (each.kind == ParameterSpec::Kind::object &&
                                 name.compare(0, each.name.size() + 1, each.name + ".") == 0);
                       });
      if (spec == operation->parameters.end())
        notes.push_back("it declares " + parameter + " for " + name +
                        ", which has no such parameter");
      else if (spec->kind == ParameterSpec::Kind::choice)
        for (const nlohmann::json& value : values)
          if (std::find(spec->choices.begin(), spec->choices.end(), value) == spec->choices.end())
            notes.push_back("it declares " + parameter + " = " + value.dump() + " for " + name +
                            "; allowed is " + spec->allowed());
    }
  }
  return notes;
}

}  // namespace posproof
