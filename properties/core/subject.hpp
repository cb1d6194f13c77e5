#pragma once

#include "properties/core/range.hpp"
#include "reference/core/grade.hpp"
#include "reference/core/implementation.hpp"

namespace posproof::properties {

/// One output of an implementation.
struct Measured {
  Tensor got;
  xt::xarray<Range> range;  ///< where each true value must lie
};

/// An implementation that is held to laws, and how exact it says it is.
class Subject {
 public:
  enum class Arithmetic {
    answers,   ///< true values lie within the bound of the answers
    formulas,  ///< true values are the reference's formulas at 60 digits; answers must agree
  };

  Subject(Implementation& implementation, Grade grade, Arithmetic arithmetic)
      : implementation_(implementation), grade_(grade), arithmetic_(arithmetic) {}

  /// What it says; may be called with what must be refused.
  Answer ask(const std::string& operation, const nlohmann::json& parameters, const Tensors& inputs);

  /// Every output of a call that must be answered. An answer of `unsupported` discards the case,
  /// any other that is not outputs, or outputs of another shape or type, fail it.
  std::map<std::string, Measured> measure(const std::string& operation,
                                          const nlohmann::json& parameters, const Tensors& inputs);

  bool has(const std::string& operation) const {
    return implementation_.description().operations.count(operation) > 0;
  }

  /// What was asked since the last forget().
  const std::vector<Request>& asked() const { return asked_; }
  void forget() { asked_.clear(); }

 private:
  Bounds limits(const Operation& operation, const Parameters& parameters, const Tensors& inputs,
                const Tensors& outputs, Dtype dtype) const;

  Implementation& implementation_;
  Grade grade_;
  Arithmetic arithmetic_;
  std::vector<Request> asked_;
};

}  // namespace posproof::properties
