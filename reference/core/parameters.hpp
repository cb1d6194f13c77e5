#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace posproof {

/// An input that an operation must not answer: which parameter or input, what it holds, what is
/// allowed. An implementation answers it with `refused`.
class Refused : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// One parameter of an operation. This one structure checks, names defaults in documentation,
/// tells conventions from other parameters and (later) feeds generators and the JSON Schema.
struct ParameterSpec {
  enum class Kind { integer, number, boolean, choice, object };

  std::string name;  ///< dots reach inside objects: "rope_scaling.factor"
  Kind kind = Kind::number;
  std::vector<std::string> choices;
  nlohmann::json fallback;  ///< the default; null when there is none
  bool required = false;
  std::optional<double> above;  ///< exclusive lower limit
  std::optional<double> at_least;
  std::optional<double> at_most;
  /// A value out of range is asked too, and must be refused (docs/protocol.md).
  bool is_refused_outside = false;
  std::string convention_kind;  ///< "K-RL1" when right implementations differ here; else empty

  ParameterSpec& must_be_above(double limit) { return above = limit, *this; }
  ParameterSpec& must_be_at_least(double limit) { return at_least = limit, *this; }
  ParameterSpec& must_be_at_most(double limit) { return at_most = limit, *this; }
  ParameterSpec& refused_outside() { return is_refused_outside = true, *this; }
  ParameterSpec& convention(std::string kind) { return convention_kind = std::move(kind), *this; }

  /// What a person may write here: "an integer ≥ 1", "one of half, interleaved".
  std::string allowed() const;
};

ParameterSpec required_integer(std::string name);
ParameterSpec optional_integer(std::string name);
ParameterSpec integer(std::string name, std::int64_t fallback);
ParameterSpec optional_number(std::string name);
ParameterSpec required_number(std::string name);
ParameterSpec number(std::string name, double fallback);
ParameterSpec boolean(std::string name, bool fallback);
/// The first is the default.
ParameterSpec choice(std::string name, std::vector<std::string> choices);
ParameterSpec object(std::string name, nlohmann::json fallback);

/// A checked set of parameters with defaults filled in.
class Parameters {
 public:
  Parameters() = default;
  /// Throws Refused, naming key, value and what is allowed, for an unknown key, a wrong type, a
  /// value out of range or a missing required key.
  Parameters(const std::vector<ParameterSpec>& specification, const nlohmann::json& given);

  /// As they were given, without defaults: what a case's id is made from.
  const nlohmann::json& given() const { return given_; }
  const nlohmann::json& with_defaults() const { return checked_; }

  bool has(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  /// The nearest double of the JSON number, which is the exact parameter.
  double number(const std::string& name) const;
  bool flag(const std::string& name) const;
  std::string text(const std::string& name) const;
  const nlohmann::json& object(const std::string& name) const;

 private:
  const nlohmann::json& at(const std::string& name) const;

  nlohmann::json given_ = nlohmann::json::object();
  nlohmann::json checked_ = nlohmann::json::object();
};

/// "rope_scaling.factor" as the JSON pointer "/rope_scaling/factor".
nlohmann::json::json_pointer pointer_to(const std::string& dotted_name);

}  // namespace posproof
