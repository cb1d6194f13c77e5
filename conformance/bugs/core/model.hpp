#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reference/core/implementation.hpp"
#include "reference/core/operation.hpp"

namespace posproof::bugs {

/// One unbatched call as a model sees it.
struct Call {
  std::string operation;
  nlohmann::json parameters;  ///< as given, unchecked
  Inputs<double> inputs;
  Dtype dtype = Dtype::f64;          ///< of the float outputs
  std::size_t row = 0;               ///< of the batch
  const Tensors* tensors = nullptr;  ///< what the inputs were made of; null for a part of attention
};

using Answering = std::function<Outputs<double>(const Call&)>;

/// An executable known mistake.
struct BugModel {
  std::string kind;     ///< "K-RL1"
  std::string variant;  ///< tells models of one kind apart; empty when there is one
  std::string title;    ///< what it does, one phrase
  std::string effect;   ///< what a user sees
  std::string mend;     ///< what to change
  /// Those it bends. `attention` follows from a bent part of it.
  std::vector<std::string> operations;
  std::function<Answering()> make;  ///< a fresh one: some keep state between calls
};

/// Every model of every scheme, in the order of schemes.cmake.
const std::vector<BugModel>& all_models();

/// Parameters checked as the reference does, and the shapes of the inputs. Throws Refused.
Parameters checked(const Call& call);

/// The formula in double.
Outputs<double> right(const Call& call);

/// An implementation of every operation: batches are cut into calls, results are rounded once from
/// double into the output type, copied lanes keep their bits. Its answer to an exception is
/// `refused` or `error`.
std::unique_ptr<Implementation> implementation_of(const BugModel& model);

/// The operations whose answers differ: those of the model, and attention where one is a part of
/// it.
std::vector<std::string> affected(const BugModel& model);
std::unique_ptr<Implementation> implementation_of(Description description, Answering answering);

/// Makers that hand out one stateless answering.
std::function<Answering()> always(Answering answering);

/// x rounded once into a type: what a model does where it keeps a value too coarsely.
double rounded_to(Dtype dtype, double x);

/// The call with other parameters, or with the integers of one input changed.
Call with_parameters(Call call, nlohmann::json parameters);
Call with_integers(Call call, const std::string& input, xt::xarray<std::int64_t> values);

/// The call with one parameter changed or left out, dots reaching inside.
Call with_parameter(Call call, const std::string& name, const nlohmann::json& value);
Call without_parameter(Call call, const std::string& name);
/// The call with every position that this input holds mapped; as it is where the input is absent.
Call with_positions(Call call, const std::string& input,
                    const std::function<std::int64_t(std::int64_t)>& position);

/// 0, 1, … count − 1.
xt::xarray<std::int64_t> counted(std::size_t count);

}  // namespace posproof::bugs
