#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reference/core/parameters.hpp"
#include "reference/core/real.hpp"
#include "reference/core/tensor.hpp"

namespace posproof {

/// A named way of rounding that ports are held to; `exact` is the truth.
enum class Recipe { exact, hf_f32, ggml_f32_chain };
std::string_view name(Recipe recipe);
/// Throws std::invalid_argument that lists the known ones.
Recipe recipe_from(std::string_view name);

/// The inputs of one unbatched call, seen by a formula in the arithmetic R. An infinity is seen as
/// a NaN: whatever it touches is free, and 0·∞ must not be a number in any arithmetic.
template <class R>
class Inputs {
 public:
  Inputs() = default;
  explicit Inputs(const Tensors& tensors) {
    for (const auto& [name, tensor] : tensors)
      is_float(tensor.dtype()) ? set(name, converted<R>(tensor))
                               : set(name, converted<std::int64_t>(tensor));
  }

  bool has(const std::string& name) const { return reals_.count(name) || integers_.count(name); }
  const xt::xarray<R>& real(const std::string& name) const { return reals_.at(name); }
  const xt::xarray<std::int64_t>& integers(const std::string& name) const {
    return integers_.at(name);
  }
  void set(const std::string& name, xt::xarray<R> array) { reals_[name] = std::move(array); }
  void set(const std::string& name, xt::xarray<std::int64_t> array) {
    integers_[name] = std::move(array);
  }

 private:
  template <class T>
  static xt::xarray<T> converted(const Tensor& tensor) {
    xt::xarray<T> array(
        typename xt::xarray<T>::shape_type(tensor.shape().begin(), tensor.shape().end()));
    for (std::size_t i = 0; i < tensor.size(); ++i)
      if constexpr (std::is_same_v<T, std::int64_t>)
        array.data()[i] = tensor.integer(i);
      else
        array.data()[i] =
            T(std::isfinite(tensor.value(i)) ? tensor.value(i)
                                             : std::numeric_limits<double>::quiet_NaN());
    return array;
  }

  std::map<std::string, xt::xarray<R>> reals_;
  std::map<std::string, xt::xarray<std::int64_t>> integers_;
};

/// One output of a formula: numbers in R, or integers.
template <class R>
struct Output {
  Output() = default;
  explicit Output(const Shape& shape)
      : values(typename xt::xarray<R>::shape_type(shape.begin(), shape.end()), R(0)) {}

  xt::xarray<R> values;
  xt::xarray<std::int64_t> integers;
  bool is_integer = false;

  /// Lanes that are copied from the input `source`, not computed: they keep their bits. Per flat
  /// output index the flat index in the source, −1 for a computed lane; empty when none is copied.
  std::string source;
  std::vector<std::int64_t> copied_from;

  /// Copies one element of `input` (named `name`).
  void copy(std::size_t to, const std::string& name, const xt::xarray<R>& input, std::size_t from) {
    if (copied_from.empty()) copied_from.assign(values.size(), -1);
    source = name;
    copied_from[to] = static_cast<std::int64_t>(from);
    values.data()[to] = input.data()[from];
  }
};

template <class R>
using Outputs = std::map<std::string, Output<R>>;

template <class R>
using Formula = std::function<Outputs<R>(const Parameters&, const Inputs<R>&, Recipe)>;

/// One formula in every arithmetic. `estimate` (double) serves the bounds, never the truth.
struct Formulas {
  Formula<Real60> at_60;
  Formula<Real200> at_200;
  Formula<Real1000> at_1000;
  Formula<Second> second;
  Formula<double> estimate;

  template <class R>
  const Formula<R>& in() const {
    if constexpr (std::is_same_v<R, Real60>)
      return at_60;
    else if constexpr (std::is_same_v<R, Real200>)
      return at_200;
    else if constexpr (std::is_same_v<R, Real1000>)
      return at_1000;
    else if constexpr (std::is_same_v<R, Second>)
      return second;
    else
      return estimate;
  }
};

/// `formula` is a generic callable (const Parameters&, const Inputs<R>&, Recipe) -> Outputs<R>.
template <class F>
Formulas in_every_arithmetic(F formula) {
  return {formula, formula, formula, formula, formula};
}

/// How an honest implementation rounds on its way to a result (docs/error-model.md). Unit
/// roundoffs; 0 where nothing is rounded.
struct Rounding {
  double phase = 0;      ///< frequencies, positions and angles
  double trig = 0;       ///< the type in which sine and cosine are evaluated
  double compute = 0;    ///< products and sums
  double stored = 0;     ///< every intermediate tensor, when it is kept in the output type
  double underflow = 0;  ///< what a product may lose below the normal range of the compute type
  FloatFormat output{53, -1073, 1024};
};

/// Per element of one output how far from the truth a result may lie.
struct Bound {
  std::vector<double> limit;
  /// 0 where the limit says nothing about the phase (|δθ| may exceed 1/4): such an element is still
  /// held to the trivial limit, but is no evidence for a grade.
  std::vector<std::uint8_t> evidence;
};
using Bounds = std::map<std::string, Bound>;

/// The values that symbols of a shape stand for: {"D": 64, "r/2": 32}.
using Dims = std::map<std::string, std::size_t>;

struct InputSpec {
  enum class Kind { real, integer, position, mask };  ///< a mask holds 0 and 1
  std::string name;
  Kind kind;
  std::vector<std::string> shape;  ///< symbols; {"..."} is any shape
  bool optional = false;
  std::string rows_of{};  ///< positions that index this axis of another input, where there is one
};

struct OutputSpec {
  std::string name;
  std::vector<std::string> shape;
  bool integer = false;
};

/// One function of a scheme that an implementation may provide.
struct Operation {
  std::string name;
  std::string summary;  ///< one sentence
  std::string source;   ///< paper and equation
  std::vector<ParameterSpec> parameters;
  std::function<std::vector<InputSpec>(const Parameters&)> inputs;
  std::vector<OutputSpec> outputs;
  bool may_be_batched = false;
  /// Axes whose entries know nothing of each other, where dims() leaves them free: a call may be
  /// cut or reordered along them.
  std::vector<std::string> independent{};
  /// Symbols whose value the parameters fix.
  std::function<Dims(const Parameters&)> dims;
  /// Throws Refused for parameters that contradict each other.
  std::function<void(const Parameters&)> refuse;
  /// True when results depend on an angle: grades P0…P3, else exact or bound.
  std::function<bool(const Parameters&)> has_phase;
  Formulas formula;
  /// Limits around the (unbatched) truth; the derivation stands in docs/error-model.md.
  std::function<Bounds(const Parameters&, const Inputs<double>&, const Outputs<double>& estimate,
                       const Rounding&)>
      bound;
  std::vector<Recipe> recipes;  ///< beyond exact
  /// Operations that this one calls, and where their parameters stand: {"scheme.parameters",
  /// "rope.apply"}. Their conventions are its conventions.
  std::function<std::vector<std::pair<std::string, std::string>>(const Parameters&)> calls;
  /// An interval that still straddles at the last precision is a tie (attention only).
  bool straddling_is_a_tie = false;

  bool has_float_inputs(const Parameters& parameters) const;
};

/// Which operations of a scheme act inside attention, and where.
struct AttentionPart {
  std::string rotates;     ///< applied to q and k, as x at their positions
  std::string bias;        ///< added to the scaled scores
  std::string key_term;    ///< added to the scores before the scale
  std::string value_term;  ///< added to the output, given the weights
};

/// One positional encoding: data that generic code runs on.
struct Scheme {
  std::string name;
  std::string title;
  std::string source;
  std::vector<Operation> operations;
  bool acts_in_attention = false;  ///< may be named as `scheme` of the operation `attention`
  AttentionPart attention{};
};

std::vector<InputSpec> no_inputs(const Parameters&);

}  // namespace posproof
