#pragma once

#include <functional>

#include "conformance/builtin.hpp"
#include "conformance/report.hpp"
#include "fixtures/core/ask.hpp"

namespace posproof {

/// A right implementation whose answers a test bends.
class Bent : public Implementation {
 public:
  using Bend = std::function<Answer(const Request&, Answer)>;
  explicit Bent(Bend bend, std::string inner = "plain64")
      : inner_(open_builtin(inner)), bend_(std::move(bend)), description_(inner_->description()) {}

  Answer start(std::chrono::milliseconds timeout) override { return inner_->start(timeout); }
  const Description& description() const override { return description_; }
  Answer run(const Request& request, std::chrono::milliseconds timeout) override {
    return bend_(request, inner_->run(request, timeout));
  }
  Description& mutable_description() { return description_; }

 private:
  std::unique_ptr<Implementation> inner_;
  Bend bend_;
  Description description_;
};

inline Case rotation(const nlohmann::json& changes = nlohmann::json::object(),
                     Dtype dtype = Dtype::f32) {
  nlohmann::json parameters{{"head_dim", 8}};
  parameters.update(changes);
  return make_case(
      "rope.apply", parameters,
      {{"x", numbers(dtype, {4, 2, 8}, 1)}, {"positions", positions({1, 2, 30011, 0})}}, "");
}

inline Case odd_rotary_dim() {
  return make_refusal("rope.apply", {{"head_dim", 8}, {"rotary_dim", 3}},
                      {{"x", numbers(Dtype::f32, {1, 1, 8}, 1)}, {"positions", positions({1})}},
                      "");
}

inline Report judged(Implementation& implementation, const std::vector<Case>& cases,
                     VerifyOptions options = {}) {
  options.command = "builtin:bent";
  return verify(implementation, cases, options);
}

inline Bent::Bend answering(Answer::Kind kind) {
  return [kind](const Request&, Answer) { return Answer{kind, {}, "because"}; };
}

/// Turns as `layout` = actual says, whatever it is asked.
inline Bent::Bend with_layout(const std::string& actual) {
  return [actual](Request request, const Answer&) {
    request.parameters["layout"] = actual;
    const auto inner = open_builtin("plain64");
    return inner->run(request, std::chrono::seconds(1));
  };
}

}  // namespace posproof
