#include "conformance/subprocess.hpp"

#include <stdexcept>

#include "fixtures/core/tensor_json.hpp"

namespace posproof {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

/// At most `most` bytes of a foreign text on one line, as UTF-8 whatever it was: reports hold it.
std::string printable(const std::string& text, std::size_t most) {
  const json raw = text.substr(0, most);
  std::string line =
      json::parse(raw.dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return line + (text.size() > most ? "…" : "");
}

/// What was received, for messages.
std::string shown(const std::string& text) {
  return text.empty() ? "nothing" : "'" + printable(text, 120) + "'";
}

Answer failed(Answer::Kind kind, std::string message) { return {kind, {}, std::move(message)}; }

std::string line_of(const json& request) {
  return request.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string seconds(milliseconds timeout) {
  std::string text = std::to_string(static_cast<double>(timeout.count()) / 1000);
  text.erase(text.find_last_not_of('0') + 1);
  return (text.back() == '.' ? text.substr(0, text.size() - 1) : text) + " s";
}

Answer read_answer(json answer) {
  // A field that is null is one that is not there: some languages write them all.
  std::string present;
  for (const char* key : {"outputs", "unsupported", "refused", "error"}) {
    if (answer.contains(key) && answer[key].is_null()) answer.erase(key);
    if (answer.contains(key)) present += (present.empty() ? "" : " and ") + std::string(key);
  }
  if (present.find(" and ") != std::string::npos)
    return failed(Answer::Kind::broken, "received " + present + " in one answer");
  for (const auto& [key, kind] :
       {std::pair{"unsupported", Answer::Kind::unsupported},
        std::pair{"refused", Answer::Kind::refused}, std::pair{"error", Answer::Kind::error}})
    if (answer.contains(key))
      return failed(kind, printable(answer[key].is_string() ? answer[key].get<std::string>()
                                                            : answer[key].dump(),
                                    500));
  if (!answer.contains("outputs"))
    return failed(
        Answer::Kind::broken,
        "received neither outputs nor unsupported, refused or error: " + shown(answer.dump()));
  try {
    return {Answer::Kind::outputs, tensors_from_json(answer["outputs"], "outputs"), ""};
  } catch (const std::exception& error) {
    return failed(Answer::Kind::broken, error.what());
  }
}

}  // namespace

Subprocess::Subprocess(const std::string& command)
    : words_(split_words(command)), child_(std::make_unique<Child>(words_)) {}

Subprocess::~Subprocess() {
  std::string line;
  if (child_ && has_started_) child_->exchange("{\"cmd\":\"stop\"}\n", milliseconds(0), line);
}

Answer Subprocess::receive(const std::string& request, milliseconds timeout, json& answer) {
  std::string line;
  switch (child_->exchange(request, timeout, line)) {
    case Child::Event::silent: {
      const std::string received = shown(child_->unread());
      child_->end();  // at once: it has had its time
      child_.reset();
      return failed(Answer::Kind::timeout,
                    "no answer in " + seconds(timeout) + ", received " + received);
    }
    case Child::Event::ended: {
      const std::string received = shown(child_->unread());
      const std::string how = child_->end();
      child_.reset();
      return failed(Answer::Kind::crash, how + " before an answer, received " + received);
    }
    case Child::Event::line:
      break;
  }
  answer = parse_json(line);
  if (!answer.is_object()) {
    child_.reset();
    return failed(Answer::Kind::broken, "received no JSON object: " + shown(line));
  }
  return {Answer::Kind::outputs, {}, line};
}

Answer Subprocess::start(milliseconds timeout) {
  json answer;
  const Answer received = receive(line_of({{"cmd", "start"}, {"protocol", 1}}), timeout, answer);
  if (received.kind != Answer::Kind::outputs) return received;
  try {
    description_ = description_from_json(answer);
  } catch (const std::invalid_argument& error) {
    child_.reset();
    return failed(Answer::Kind::broken, std::string("bad answer to start: ") + error.what() +
                                            "; received " + shown(received.message));
  }
  has_started_ = true;
  return {Answer::Kind::outputs, {}, ""};
}

Answer Subprocess::run(const Request& request, milliseconds timeout) {
  if (!child_) {
    has_started_ = false;
    try {
      child_ = std::make_unique<Child>(words_);
    } catch (const std::runtime_error& error) {
      return failed(Answer::Kind::crash, error.what());
    }
    Answer restarted = start(timeout);
    if (restarted.kind != Answer::Kind::outputs) {
      restarted.message = "at its new start: " + restarted.message;
      return restarted;
    }
  }
  const std::int64_t id = next_id_++;
  json answer;
  const Answer received =
      receive(line_of({{"cmd", "run"},
                       {"id", id},
                       {"operation", request.operation},
                       {"parameters", request.parameters},
                       {"inputs", to_json(request.inputs, description_.base64)}}),
              timeout, answer);
  if (received.kind != Answer::Kind::outputs) return received;
  if (answer.value("id", json()) != id) {
    child_.reset();
    return failed(Answer::Kind::broken,
                  "asked id " + std::to_string(id) + ", received " + shown(received.message));
  }
  return read_answer(answer);
}

}  // namespace posproof
