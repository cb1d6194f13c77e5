#pragma once

#include "properties/core/subject.hpp"
#include "reference/core/truth.hpp"

namespace posproof::properties {

/// One call of an operation, drawn from its specification alone.
struct Call {
  const Operation* operation;
  nlohmann::json parameters;
  Tensors inputs;

  Parameters checked() const { return checked_parameters(*operation, parameters); }
};

/// Parameters that are valid together, of the values that it declares. Shrink towards the required
/// ones alone, at small values.
nlohmann::json drawn_parameters(const Subject& subject, const Operation& operation);

/// These parameters, made such that they must be refused: one value outside its range, or values
/// that contradict each other. Nothing that right implementations may pass over: keys unknown or
/// without a meaning.
nlohmann::json drawn_refusal(const Operation& operation, nlohmann::json parameters);

/// What a drawn call holds beyond small shapes and any position.
struct CallOptions {
  bool every_input = false;  ///< optional ones too
  bool batched = false;
  bool subnormal = false;  ///< numbers about the least normal one, and below
};

/// A call that must be answered, with no result near overflow; others are discarded.
Call drawn_call(Subject& subject, const Operation& operation, const CallOptions& options = {});

/// The same call with other numbers and positions in the same shapes.
Call redrawn(Subject& subject, const Call& call);

/// Every output of the call.
std::map<std::string, Measured> measured(Subject& subject, const Call& call);

/// Of the call, the entries `entries` along the axis `symbol`, in that order.
Call entries_of(const Call& call, const std::string& symbol,
                const std::vector<std::size_t>& entries);

/// Which axis of an output (or of an input) is `symbol`.
std::optional<std::size_t> axis_of(const std::vector<std::string>& shape,
                                   const std::string& symbol);

/// The independent axes along which this call has several entries, and how many.
std::map<std::string, std::size_t> free_axes(const Call& call);

}  // namespace posproof::properties
