#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reference/core/tensor.hpp"

namespace posproof {

/// One question to an implementation.
struct Request {
  std::string operation;
  nlohmann::json parameters;
  Tensors inputs;
};

/// What came back, or what happened instead.
struct Answer {
  /// `error` is what the implementation says itself; `broken` is an answer against the protocol.
  enum class Kind { outputs, unsupported, refused, error, broken, crash, timeout };
  Kind kind = Kind::error;
  Tensors outputs;
  std::string message;
};

/// What an implementation says of one operation: types and, per parameter (dots reach inside), the
/// values it takes. Absent = any.
struct DeclaredOperation {
  std::vector<std::string> dtypes;
  std::map<std::string, std::vector<nlohmann::json>> parameters;
};

/// The answer to `start`.
struct Description {
  std::string name, version, language;
  bool base64 = false;
  std::map<std::string, DeclaredOperation> operations;
};

/// What is judged.
class Implementation {
 public:
  virtual ~Implementation() = default;

  /// Starts it where that is needed. `outputs` when description() is known, else what happened
  /// (broken, crash or timeout). Called once, before anything else.
  virtual Answer start(std::chrono::milliseconds timeout) = 0;
  virtual const Description& description() const = 0;
  /// One case. After a crash or a timeout the next call starts it anew.
  virtual Answer run(const Request& request, std::chrono::milliseconds timeout) = 0;
};

/// The reason why the declaration excludes a request, or empty. `parameters` with defaults filled
/// in; an empty dtype is not looked at.
std::string declared_unsupported(const Description& description, const std::string& operation,
                                 const nlohmann::json& parameters, const std::string& dtype);

/// What a declaration names that posproof does not have, a sentence each: most likely a slip that
/// excludes cases.
std::vector<std::string> unknown_names(const Description& description);

/// The JSON object that answers `start`, and back. from_json throws std::invalid_argument with what
/// is wrong.
nlohmann::json to_json(const Description& description);
Description description_from_json(const nlohmann::json& answer);

}  // namespace posproof
