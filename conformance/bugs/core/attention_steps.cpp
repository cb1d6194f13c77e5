#include "conformance/bugs/core/attention_steps.hpp"

#include <algorithm>

#include "reference/attention.hpp"

namespace posproof::bugs {
namespace {

namespace formula = reference::attention;
using Array = xt::xarray<double>;

/// One output of the operation `name` of the scheme, on what attention makes and the scheme's own
/// tensors. Nothing where the part or its optional tensors are absent.
std::optional<Array> output_of(const AttentionSteps& steps, const Call& call,
                               const std::string& name, const std::string& output,
                               Inputs<double> given) {
  if (name.empty()) return std::nullopt;
  const nlohmann::json scheme = call.parameters.value("scheme", nlohmann::json::object());
  Call part{name, scheme.value("parameters", nlohmann::json::object()), std::move(given),
            call.dtype, call.row};
  const Operation& operation = find_operation(name);
  for (const InputSpec& spec : operation.inputs(checked_parameters(operation, part.parameters)))
    if (!part.inputs.has(spec.name)) {
      if (!call.inputs.has(spec.name)) return std::nullopt;
      part.inputs.set(spec.name, call.inputs.real(spec.name));
    }
  return steps.part(part).at(output).values;
}

Array scores(const AttentionSteps& steps, const Call& call, const Parameters& p) {
  Inputs<double> seen = call.inputs;
  const std::size_t queries = seen.real("q").shape(1), keys = seen.real("k").shape(1);
  seen.set("q_positions", formula::positions(seen, "q_positions", queries));
  seen.set("k_positions", formula::positions(seen, "k_positions", keys));
  if (steps.before) steps.before(p, seen);
  const auto& q_at = seen.integers("q_positions");
  const auto& k_at = seen.integers("k_positions");
  const Array& q = seen.real("q");
  const Array turned_q = rotated(steps, call, q, q_at),
              turned_k = rotated(steps, call, seen.real("k"), k_at);

  Inputs<double> given;
  given.set("q_positions", q_at);
  given.set("k_positions", k_at);
  const AttentionPart& part = formula::scheme_in(p).attention;
  const auto bias = output_of(steps, call, part.bias, "bias", given);
  given.set("q", q);
  const auto key_term = output_of(steps, call, part.key_term, "logits", given);

  const double factor = formula::scale<double>(p, q.shape(2));
  Array score = Array::from_shape({q.shape(0), queries, keys});
  for (std::size_t h = 0; h < q.shape(0); ++h) {
    const formula::Matrix<double> product =
        formula::head_of(turned_q, h).lazyProduct(formula::head_of(turned_k, h).transpose());
    for (std::size_t i = 0; i < queries; ++i)
      for (std::size_t j = 0; j < keys; ++j) {
        double sum = product(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j));
        if (key_term) sum += (*key_term)(h, i, j);
        if (bias && steps.scales_the_bias) sum += (*bias)(h, i, j);
        sum *= factor;
        if (bias && !steps.scales_the_bias) sum += (*bias)(h, i, j);
        score(h, i, j) = sum;
      }
  }
  return score;
}

}  // namespace

Array rotated(const AttentionSteps& steps, const Call& call, const Array& x,
              const xt::xarray<std::int64_t>& at) {
  const nlohmann::json scheme = call.parameters.value("scheme", nlohmann::json::object());
  const AttentionPart& part = find_scheme(scheme.value("name", "nope")).attention;
  Inputs<double> given;
  given.set("x", formula::swapped(x));
  given.set("positions", at);
  const auto turned = output_of(steps, call, part.rotates, "y", std::move(given));
  return turned ? formula::swapped(*turned) : x;
}

Outputs<double> attention_with(const AttentionSteps& steps, const Call& call) {
  const Parameters p = checked(call);
  const Array weight = formula::softmax(p, call.inputs, scores(steps, call, p));
  Array v = call.inputs.real("v");
  if (steps.value) steps.value(call, steps, v);
  Inputs<double> given;
  given.set("weights", weight);
  given.set("q_positions", formula::positions(call.inputs, "q_positions", weight.shape(1)));
  given.set("k_positions", formula::positions(call.inputs, "k_positions", weight.shape(2)));
  std::optional<Array> value_term;
  if (steps.has_value_term)
    value_term =
        output_of(steps, call, formula::scheme_in(p).attention.value_term, "out", std::move(given));
  Output<double> out({weight.shape(0), weight.shape(1), v.shape(2)});
  for (std::size_t h = 0; h < weight.shape(0); ++h) {
    const formula::Matrix<double> mixed =
        formula::head_of(weight, h).lazyProduct(formula::head_of(v, h));
    for (std::size_t i = 0; i < weight.shape(1); ++i)
      for (std::size_t d = 0; d < v.shape(2); ++d)
        out.values(h, i, d) = mixed(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(d)) +
                              (value_term ? (*value_term)(h, i, d) : 0);
  }
  return {{"out", out}};
}

Answering through_attention(Answering part) {
  return [part = std::move(part)](const Call& call) {
    if (call.operation != "attention") return part(call);
    AttentionSteps steps;
    steps.part = part;
    return attention_with(steps, call);
  };
}

BugModel model(const Words& words, std::vector<std::string> operations, Answering answering) {
  const auto bent = [operations, answering = std::move(answering)](const Call& call) {
    const bool is_bent =
        std::find(operations.begin(), operations.end(), call.operation) != operations.end();
    return is_bent ? answering(call) : right(call);
  };
  const bool bends_attention =
      std::find(operations.begin(), operations.end(), "attention") != operations.end();
  return {words.kind,
          words.variant,
          words.title,
          words.effect,
          words.mend,
          std::move(operations),
          always(bends_attention ? Answering(bent) : through_attention(bent))};
}

Answering in_attention(AttentionSteps steps) {
  return [steps = std::move(steps)](const Call& call) {
    return call.operation == "attention" ? attention_with(steps, call) : right(call);
  };
}

}  // namespace posproof::bugs
