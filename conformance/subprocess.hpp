#pragma once

#include "conformance/child.hpp"
#include "reference/core/implementation.hpp"

namespace posproof {

/// A program that speaks the line protocol (docs/protocol.md). It is started anew after a crash, a
/// timeout or a broken line, so that the next case is unaffected.
class Subprocess : public Implementation {
 public:
  /// Throws when the program cannot be started.
  explicit Subprocess(const std::string& command);
  ~Subprocess() override;

  Answer start(std::chrono::milliseconds timeout) override;
  const Description& description() const override { return description_; }
  Answer run(const Request& request, std::chrono::milliseconds timeout) override;

 private:
  Answer receive(const std::string& request, std::chrono::milliseconds timeout,
                 nlohmann::json& answer);

  std::vector<std::string> words_;
  std::unique_ptr<Child> child_;
  Description description_;
  bool has_started_ = false;
  std::int64_t next_id_ = 1;
};

}  // namespace posproof
