#pragma once

#include <rapidcheck.h>

#include <optional>

#include "properties/core/range.hpp"
#include "reference/core/grade.hpp"
#include "reference/core/implementation.hpp"

namespace posproof::properties {

/// One output of an implementation.
struct Measured {
  Tensor got;
  xt::xarray<Range> range;    ///< where each true value must lie
  std::vector<double> limit;  ///< how far from it each answer may be
};

/// An implementation that is held to laws, and how exact it says it is.
class Subject {
 public:
  enum class Arithmetic {
    answers,   ///< true values lie within the bound of the answers
    formulas,  ///< true values are the reference's formulas at 60 digits; answers must agree
  };

  /// Without a grade, answers are held to the loosest one that their operation and type can have.
  Subject(Implementation& implementation, std::optional<Grade> grade,
          Arithmetic arithmetic = Arithmetic::answers,
          std::chrono::milliseconds timeout = std::chrono::seconds(30))
      : implementation_(implementation),
        grade_(grade),
        arithmetic_(arithmetic),
        timeout_(timeout) {}

  /// What it says; may be called with what must be refused. An answer that ends the experiment (no
  /// answer at all, or one against the protocol) throws Ended.
  Answer ask(const std::string& operation, const nlohmann::json& parameters, const Tensors& inputs);

  /// Every output of a call that must be answered. An answer of `unsupported` discards the case,
  /// any other that is not outputs, or outputs of another shape or type, fail it.
  std::map<std::string, Measured> measure(const std::string& operation,
                                          const nlohmann::json& parameters, const Tensors& inputs);

  bool has(const std::string& operation) const {
    return implementation_.description().operations.count(operation) > 0;
  }

  /// One of the floating point types that it declares for all operations of the law; of all four
  /// when none is left, so that a law finds itself excluded.
  Dtype drawn_dtype() const;

  /// Per parameter of an operation the values that it declares.
  const std::map<std::string, std::vector<nlohmann::json>>& declared(
      const std::string& operation) const;

  /// What was asked since the last forget().
  const std::vector<Request>& asked() const { return asked_; }
  void forget() { asked_.clear(); }

  /// How often it declared or answered that it does not do what was asked, since the last
  /// start_law().
  int exclusions() const { return exclusions_; }
  /// How the last answer ended all experiments of the law, if one did.
  const std::optional<Answer>& end() const { return end_; }
  void start_law(const std::vector<std::string>& operations);

  /// Thrown by ask() once end() is set.
  struct Ended {};

 private:
  Bounds limits(const Operation& operation, const Parameters& parameters, const Tensors& inputs,
                const Tensors& outputs, Dtype dtype) const;

  Implementation& implementation_;
  std::optional<Grade> grade_;
  Arithmetic arithmetic_;
  std::chrono::milliseconds timeout_;
  std::vector<Dtype> dtypes_;
  std::vector<Request> asked_;
  int exclusions_ = 0;
  std::optional<Answer> end_;
  std::map<std::string, int> silent_;  ///< time-outs of an operation in a row
};

}  // namespace posproof::properties
