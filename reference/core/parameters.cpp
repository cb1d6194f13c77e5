#include "reference/core/parameters.hpp"

#include <algorithm>
#include <cmath>

namespace posproof {
namespace {

using nlohmann::json;
using Kind = ParameterSpec::Kind;

ParameterSpec make(std::string name, Kind kind) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.kind = kind;
  return spec;
}

std::string shown(double limit) {
  return limit == std::floor(limit) ? std::to_string(static_cast<std::int64_t>(limit))
                                    : json(limit).dump();
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

bool is_integral(const json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>() <= INT64_MAX;
  return value.is_number_integer() ||
         (value.is_number_float() && std::fabs(value.get<double>()) < 9e15 &&
          value.get<double>() == std::floor(value.get<double>()));
}

bool fits(const ParameterSpec& spec, const json& value) {
  switch (spec.kind) {
    case Kind::boolean:
      return value.is_boolean();
    case Kind::object:
      return value.is_object();
    case Kind::choice:
      return value.is_string() &&
             std::count(spec.choices.begin(), spec.choices.end(), value.get<std::string>()) > 0;
    case Kind::integer:
    case Kind::number: {
      if (!value.is_number() || (spec.kind == Kind::integer && !is_integral(value))) return false;
      const double number = value.get<double>();
      return std::isfinite(number) && !(spec.above && number <= *spec.above) &&
             !(spec.at_least && number < *spec.at_least) &&
             !(spec.at_most && number > *spec.at_most);
    }
  }
  return false;
}

void check_keys(const std::vector<ParameterSpec>& specification, const json& given,
                const std::string& prefix) {
  for (const auto& [key, value] : given.items()) {
    const std::string full = prefix + key;
    const auto inside = [&](const ParameterSpec& spec) {
      return spec.name.rfind(full + ".", 0) == 0;
    };
    // A key that holds a dot itself is never what the dots of a specification mean.
    const bool plain = key.find('.') == std::string::npos;
    const bool known = std::any_of(specification.begin(), specification.end(),
                                   [&](const ParameterSpec& spec) { return spec.name == full; });
    if (plain && known) continue;
    if (plain && std::any_of(specification.begin(), specification.end(), inside)) {
      if (!value.is_object())
        throw Refused(full + ": found " + value.dump() + ", allowed is an object");
      check_keys(specification, value, full + ".");
      continue;
    }
    std::vector<std::string> names;
    for (const ParameterSpec& spec : specification)
      if (spec.name.rfind(prefix, 0) == 0) names.push_back(spec.name.substr(prefix.size()));
    throw Refused(full + ": unknown parameter; known are " + join(names));
  }
}

}  // namespace

std::string ParameterSpec::allowed() const {
  switch (kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::object:
      return "an object";
    case Kind::choice:
      return "one of " + join(choices);
    default:
      break;
  }
  std::string text = kind == Kind::integer ? "an integer" : "a number";
  if (above) text += " > " + shown(*above);
  if (at_least) text += " >= " + shown(*at_least);
  if (at_most) text += std::string(above || at_least ? " and" : "") + " <= " + shown(*at_most);
  return text;
}

ParameterSpec required_integer(std::string name) {
  ParameterSpec spec = make(std::move(name), Kind::integer);
  spec.required = true;
  return spec;
}

ParameterSpec optional_integer(std::string name) { return make(std::move(name), Kind::integer); }

ParameterSpec integer(std::string name, std::int64_t fallback) {
  ParameterSpec spec = make(std::move(name), Kind::integer);
  spec.fallback = fallback;
  return spec;
}

ParameterSpec required_number(std::string name) {
  ParameterSpec spec = make(std::move(name), Kind::number);
  spec.required = true;
  return spec;
}

ParameterSpec optional_number(std::string name) { return make(std::move(name), Kind::number); }

ParameterSpec number(std::string name, double fallback) {
  ParameterSpec spec = make(std::move(name), Kind::number);
  spec.fallback = fallback;
  return spec;
}

ParameterSpec boolean(std::string name, bool fallback) {
  ParameterSpec spec = make(std::move(name), Kind::boolean);
  spec.fallback = fallback;
  return spec;
}

ParameterSpec choice(std::string name, std::vector<std::string> choices) {
  ParameterSpec spec = make(std::move(name), Kind::choice);
  spec.fallback = choices.front();
  spec.choices = std::move(choices);
  return spec;
}

ParameterSpec object(std::string name, json fallback) {
  ParameterSpec spec = make(std::move(name), Kind::object);
  spec.fallback = std::move(fallback);
  return spec;
}

nlohmann::json::json_pointer pointer_to(const std::string& dotted_name) {
  std::string pointer = "/" + dotted_name;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return nlohmann::json::json_pointer(pointer);
}

Parameters::Parameters(const std::vector<ParameterSpec>& specification, const json& given)
    : given_(given.is_null() ? json::object() : given), checked_(given_) {
  if (!given_.is_object())
    throw Refused("parameters: found " + given_.dump() + ", allowed is an object");
  check_keys(specification, given_, "");
  for (const ParameterSpec& spec : specification) {
    const auto pointer = pointer_to(spec.name);
    if (!given_.contains(pointer)) {
      if (spec.required) throw Refused(spec.name + ": missing; allowed is " + spec.allowed());
      if (!spec.fallback.is_null()) checked_[pointer] = spec.fallback;
      continue;
    }
    const json& value = given_.at(pointer);
    if (!fits(spec, value))
      throw Refused(spec.name + ": found " + value.dump() + ", allowed is " + spec.allowed());
  }
}

const json& Parameters::at(const std::string& name) const { return checked_.at(pointer_to(name)); }

bool Parameters::has(const std::string& name) const { return checked_.contains(pointer_to(name)); }

std::int64_t Parameters::integer(const std::string& name) const {
  const json& value = at(name);
  return value.is_number_integer() ? value.get<std::int64_t>()
                                   : static_cast<std::int64_t>(value.get<double>());
}

double Parameters::number(const std::string& name) const { return at(name).get<double>(); }

bool Parameters::flag(const std::string& name) const { return at(name).get<bool>(); }

std::string Parameters::text(const std::string& name) const { return at(name).get<std::string>(); }

const json& Parameters::object(const std::string& name) const { return at(name); }

}  // namespace posproof
