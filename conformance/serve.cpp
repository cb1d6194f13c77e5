#include "conformance/serve.hpp"

#include <istream>
#include <ostream>

#include "fixtures/core/tensor_json.hpp"

namespace posproof {
namespace {

using nlohmann::json;

bool uses_base64(const json& inputs) {
  for (const json& tensor : inputs)
    if (tensor.is_object() && tensor.value("data", json()).is_string()) return true;
  return false;
}

Answer asked(Implementation& implementation, const json& request, const json& inputs,
             std::chrono::milliseconds timeout) {
  const json operation = request.value("operation", json());
  if (!operation.is_string())
    return {
        Answer::Kind::error, {}, "operation: found " + operation.dump() + ", allowed is a string"};
  try {
    return implementation.run({operation, request.value("parameters", json::object()),
                               tensors_from_json(inputs, "inputs")},
                              timeout);
  } catch (const std::exception& error) {
    return {Answer::Kind::error, {}, error.what()};
  }
}

json answer_to_run(Implementation& implementation, const json& request,
                   std::chrono::milliseconds timeout) {
  json answer{{"id", request.value("id", json())}};
  const json inputs = request.value("inputs", json::object());
  const Answer run = asked(implementation, request, inputs, timeout);
  switch (run.kind) {
    case Answer::Kind::outputs:
      answer["outputs"] = to_json(run.outputs, uses_base64(inputs));
      break;
    case Answer::Kind::unsupported:
      answer["unsupported"] = run.message;
      break;
    case Answer::Kind::refused:
      answer["refused"] = run.message;
      break;
    default:
      answer["error"] = run.message;
  }
  return answer;
}

}  // namespace

int serve(Implementation& implementation, std::istream& in, std::ostream& out,
          std::chrono::milliseconds timeout) {
  const auto say = [&out](const json& answer) {
    out << answer.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  };
  for (std::string line; out && std::getline(in, line);) {
    const json request = parse_json(line);
    const json command = request.is_object() ? request.value("cmd", json()) : json();
    if (command == "stop") break;
    if (command == "start" && request.value("protocol", json(1)) != 1) {
      say({{"error", "protocol: found " + request["protocol"].dump() + ", allowed is 1"}});
    } else if (command == "start") {
      json answer = to_json(implementation.description());
      answer["base64"] = true;
      say(answer);
    } else if (command == "run") {
      say(answer_to_run(implementation, request, timeout));
    } else {
      say({{"id", request.is_object() ? request.value("id", json()) : json()},
           {"error", "allowed is a JSON object with cmd start, run or stop"}});
    }
  }
  return out ? 0 : 1;
}

}  // namespace posproof
