#include "reference/attention.hpp"

#include <set>

#include "reference/core/phase.hpp"

namespace posproof::reference::attention {
namespace {

using Array = xt::xarray<double>;

/// The scheme's own tensors: inputs of its parts that attention does not make itself. Those of the
/// value term are optional: most systems leave it out.
std::vector<InputSpec> tensors_of(const Parameters& p) {
  static const std::set<std::string> made{"x",       "positions",   "q",
                                          "weights", "q_positions", "k_positions"};
  const AttentionPart& part = scheme_in(p).attention;
  std::vector<InputSpec> own;
  for (const std::string& name : {part.bias, part.key_term, part.value_term}) {
    if (name.empty()) continue;
    const Operation& operation = find_operation(name);
    for (InputSpec spec : operation.inputs(parameters_of(p, operation)))
      if (!made.count(spec.name)) {
        spec.optional = name == part.value_term;
        own.push_back(spec);
      }
  }
  return own;
}

std::vector<InputSpec> inputs(const Parameters& p) {
  using Kind = InputSpec::Kind;
  std::vector<InputSpec> specs{
      {"q", Kind::real, {"H", "Lq", "D"}},           {"k", Kind::real, {"H", "Lk", "D"}},
      {"v", Kind::real, {"H", "Lk", "D"}},           {"q_positions", Kind::position, {"Lq"}, true},
      {"k_positions", Kind::position, {"Lk"}, true}, {"key_mask", Kind::mask, {"Lk"}, true}};
  for (const InputSpec& spec : tensors_of(p)) specs.push_back(spec);
  return specs;
}

/// What the scheme's parameters fix: head_dim and the heads of its bias must be those of q.
Dims dims(const Parameters& p) {
  Dims all;
  const AttentionPart& part = scheme_in(p).attention;
  for (const std::string& name : {part.rotates, part.bias, part.key_term}) {
    if (name.empty()) continue;
    const Operation& operation = find_operation(name);
    const Parameters own = parameters_of(p, operation);
    if (!operation.dims) continue;
    for (const auto& [symbol, extent] : operation.dims(own))
      all[name == part.bias && symbol == operation.outputs[0].shape[0] ? "H" : symbol] = extent;
  }
  return all;
}

void refuse(const Parameters& p) {
  const nlohmann::json& scheme = p.object("scheme");
  for (const auto& [key, value] : scheme.items())
    if (key != "name" && key != "parameters")
      throw Refused("scheme." + key + ": unknown parameter; known are name, parameters");
  if (scheme.contains("name") && !scheme["name"].is_string())
    throw Refused("scheme.name: found " + scheme["name"].dump() + ", allowed is a scheme's name");
  std::string known;
  for (const Scheme* each : schemes())
    if (each->acts_in_attention) known += (known.empty() ? "" : ", ") + each->name;
  const std::string name = scheme.value("name", "nope");
  bool acts = false;
  for (const Scheme* each : schemes())
    acts = acts || (each->name == name && each->acts_in_attention);
  if (!acts) throw Refused("scheme.name: found \"" + name + "\", allowed is one of " + known);
  const AttentionPart& part = find_scheme(name).attention;
  bool has_part = false;
  for (const std::string& operation : {part.rotates, part.bias, part.key_term, part.value_term})
    if (!operation.empty()) {
      has_part = true;
      parameters_of(p, find_operation(operation));
    }
  if (!has_part && scheme.contains("parameters") && !scheme["parameters"].empty())
    throw Refused("scheme.parameters: found " + scheme["parameters"].dump() + ", allowed for " +
                  name + " is none");
}

bool has_phase(const Parameters& p) {
  const std::string rotates = scheme_in(p).attention.rotates;
  return !rotates.empty() && find_operation(rotates).has_phase(p);
}

std::vector<std::pair<std::string, std::string>> calls(const Parameters& p) {
  const AttentionPart& part = scheme_in(p).attention;
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& name : {part.rotates, part.bias, part.key_term, part.value_term})
    if (!name.empty()) all.emplace_back("scheme.parameters", name);
  return all;
}

/// How a part rounds: its result is held in the output type only where every intermediate tensor
/// is.
Rounding of_a_part(const Rounding& whole) {
  Rounding part = whole;
  if (whole.stored == 0)
    part.output =
        format_of(whole.compute == format_of(Dtype::f64).unit_roundoff() ? Dtype::f64 : Dtype::f32);
  return part;
}

/// Error bound of x after the scheme's rotation, the trivial one where the phase is not known.
Array rotation_error(const Parameters& p, const Array& x, const xt::xarray<std::int64_t>& at,
                     const Rounding& rounding) {
  const std::string rotates = scheme_in(p).attention.rotates;
  if (rotates.empty()) return xt::zeros_like(x);
  const Operation& operation = find_operation(rotates);
  const Parameters own = parameters_of(p, operation);
  Inputs<double> in;
  in.set("x", swapped(x));
  in.set("positions", at);
  const Bound bound =
      operation
          .bound(own, in, operation.formula.estimate(own, in, Recipe::exact), of_a_part(rounding))
          .at("y");
  Array error = swapped(x);
  for (std::size_t i = 0; i < error.size(); ++i)
    error.data()[i] = bound.evidence[i] ? bound.limit[i] : std::numeric_limits<double>::infinity();
  return swapped(error);
}

/// Error bound of the terms that a scheme adds to the scores.
Array term_error(const Parameters& p, const std::string& name, const std::string& output,
                 const Inputs<double>& in, const Inputs<double>& given, const Rounding& rounding,
                 Array& magnitude) {
  const auto estimate = run_part(p, name, in, given, Recipe::exact);
  if (!estimate) return {};
  magnitude = xt::abs(estimate->at(output).values);
  Array error = magnitude;
  const Operation& operation = find_operation(name);
  Inputs<double> all = given;
  for (const InputSpec& spec : operation.inputs(parameters_of(p, operation)))
    if (!all.has(spec.name)) all.set(spec.name, in.real(spec.name));
  if (operation.bound) {
    const Bounds bounds =
        operation.bound(parameters_of(p, operation), all, *estimate, of_a_part(rounding));
    std::copy(bounds.at(output).limit.begin(), bounds.at(output).limit.end(), error.begin());
  } else {
    error.fill(0);
  }
  return error;
}

/// |δscore| per (h, i, j); docs/error-model.md, "Attention".
Array score_error(const Parameters& p, const Inputs<double>& in, const Rounding& rounding,
                  const Array& score) {
  const Array &q = in.real("q"), &k = in.real("k");
  const auto q_at = positions(in, "q_positions", q.shape(1));
  const auto k_at = positions(in, "k_positions", k.shape(1));
  const Array turned_q = xt::abs(rotated(p, q, q_at, Recipe::exact)),
              turned_k = xt::abs(rotated(p, k, k_at, Recipe::exact));
  const Array error_q = rotation_error(p, q, q_at, rounding),
              error_k = rotation_error(p, k, k_at, rounding);
  Inputs<double> given;
  given.set("q_positions", q_at);
  given.set("k_positions", k_at);
  Array bias, key_term;
  const AttentionPart& part = scheme_in(p).attention;
  const Array bias_error = term_error(p, part.bias, "bias", in, given, rounding, bias);
  given.set("q", q);
  const Array key_error = term_error(p, part.key_term, "logits", in, given, rounding, key_term);

  const double factor = std::fabs(scale<double>(p, q.shape(2)));
  const double width = static_cast<double>(q.shape(2));
  const double u = rounding.compute, stored = rounding.stored;
  Array error = Array::from_shape({q.shape(0), q.shape(1), k.shape(1)});
  for (std::size_t h = 0; h < q.shape(0); ++h)
    for (std::size_t i = 0; i < q.shape(1); ++i)
      for (std::size_t j = 0; j < k.shape(1); ++j) {
        double moved = 0, magnitude = 0;
        for (std::size_t d = 0; d < q.shape(2); ++d) {
          const double a = turned_q(h, i, d), b = turned_k(h, j, d);
          moved +=
              error_q(h, i, d) * b + a * error_k(h, j, d) + error_q(h, i, d) * error_k(h, j, d);
          magnitude += a * b;
        }
        double kept = 1;  // tensors of the size of the products that are stored: the scaled q
        if (!part.key_term.empty()) {
          moved += key_error(h, i, j);
          magnitude += key_term(h, i, j);
          kept = 2;
        }
        double total = factor * (moved + (width + 3) * u * magnitude + kept * stored * magnitude +
                                 width * rounding.underflow);
        double scaled = std::fabs(score(h, i, j));
        if (!part.bias.empty()) {
          total += bias_error(h, i, j);
          scaled += std::fabs(score(h, i, j)) + bias(h, i, j);
        }
        error(h, i, j) = total + (u + stored) * scaled;
      }
  return error;
}

/// What softmax makes of the scores' errors; docs/error-model.md, "Attention".
struct Softened {
  Array moved;                       ///< w·A: how far errors of its own key may move a weight
  Array total;                       ///< the largest that a computed weight may be
  Array all_moved;                   ///< Ā per (h, i): how far all of a row may
  xt::xarray<std::uint8_t> visible;  ///< per (i, j)
};

Softened softened(const Parameters& p, const Inputs<double>& in, const Array& weight,
                  const Array& score, const Array& error, const Rounding& rounding) {
  const double u = rounding.compute, stored = rounding.stored;
  const auto q_at = positions(in, "q_positions", weight.shape(1));
  const auto k_at = positions(in, "k_positions", weight.shape(2));
  Softened row{weight, weight, Array::from_shape({weight.shape(0), weight.shape(1)}),
               xt::xarray<std::uint8_t>::from_shape({weight.shape(1), weight.shape(2)})};
  for (std::size_t i = 0; i < weight.shape(1); ++i)
    for (std::size_t j = 0; j < weight.shape(2); ++j)
      row.visible(i, j) = visible(p, in, q_at(i), k_at(j), j);
  for (std::size_t h = 0; h < weight.shape(0); ++h)
    for (std::size_t i = 0; i < weight.shape(1); ++i) {
      double largest = -std::numeric_limits<double>::infinity(), all = 0;
      for (std::size_t j = 0; j < weight.shape(2); ++j)
        if (row.visible(i, j)) largest = std::max(largest, score(h, i, j));
      for (std::size_t j = 0; j < weight.shape(2); ++j) {
        const double w = weight(h, i, j);
        const double exponent =
            error(h, i, j) + (u + stored) * std::fabs(score(h, i, j) - largest) + 4 * u + stored;
        // A weight below the range of double may be moved into it: w ≤ e^(s − m).
        row.moved(h, i, j) = !row.visible(i, j) ? 0
                             : w > 0            ? w * std::expm1(exponent)
                                                : std::exp(score(h, i, j) - largest + exponent);
        all += row.moved(h, i, j);
      }
      row.all_moved(h, i) = all;
      for (std::size_t j = 0; j < weight.shape(2); ++j)
        // A computed quotient of one exponential and the sum that holds it is at most 1.
        row.total(h, i, j) =
            std::min(1.0, (weight(h, i, j) + row.moved(h, i, j)) / (1 - std::min(all, 0.25)));
    }
  return row;
}

Bounds bound(const Parameters& p, const Inputs<double>& in, const Outputs<double>& estimate,
             const Rounding& rounding) {
  const Array& v = in.real("v");
  const Array score = scores(p, in, Recipe::exact);
  const Array weight = softmax(p, in, score);
  const Softened row =
      softened(p, in, weight, score, score_error(p, in, rounding, score), rounding);
  const std::size_t keys = v.shape(1), width = v.shape(2);
  const auto terms = static_cast<double>(keys);
  const double u = rounding.compute, stored = rounding.stored;
  const double smallest = stored > 0 ? rounding.output.smallest() : rounding.underflow;

  // The value term's vectors: Σ moved·|a| and Σ total·|a|.
  Array term_moved, term_total;
  const std::string value_term = scheme_in(p).attention.value_term;
  const bool has_term = !value_term.empty() && in.has("relative_values");
  if (has_term) {
    Inputs<double> tables = in, given;
    tables.set("relative_values", Array(xt::abs(in.real("relative_values"))));
    given.set("q_positions", positions(in, "q_positions", weight.shape(1)));
    given.set("k_positions", positions(in, "k_positions", weight.shape(2)));
    given.set("weights", row.moved);
    term_moved = run_part(p, value_term, tables, given, Recipe::exact)->at("out").values;
    given.set("weights", row.total);
    term_total = run_part(p, value_term, tables, given, Recipe::exact)->at("out").values;
  }

  Limits limits(rounding);
  const auto& out = estimate.at("out").values;
  for (std::size_t h = 0; h < weight.shape(0); ++h)
    for (std::size_t i = 0; i < weight.shape(1); ++i)
      for (std::size_t d = 0; d < width; ++d) {
        const double mean = out(h, i, d), all = row.all_moved(h, i);
        double moved = 0, total = 0, largest = 0, spread = 0;
        for (std::size_t j = 0; j < keys; ++j) {
          const double value = std::fabs(v(h, j, d));
          moved += row.moved(h, i, j) * (has_term ? value : std::fabs(v(h, j, d) - mean));
          total += row.total(h, i, j) * value;
          if (!row.visible(i, j)) continue;
          largest = std::max(largest, value);
          spread += value;
        }
        if (has_term) {
          moved += term_moved(h, i, d) + all * std::fabs(mean);
          total += term_total(h, i, d);
          largest += term_total(h, i, d);
        }
        if (!(all <= 0.25)) {
          limits.no_evidence(2.1 * largest);
          continue;
        }
        limits.element(moved / (1 - all) +
                           ((2 * terms + 6) * u + (has_term ? 5 : 2) * stored) * total +
                           2 * smallest * spread + 2 * terms * rounding.underflow,
                       mean);
      }
  return {{"out", limits.take()}};
}

}  // namespace

Scheme scheme() {
  Operation attention;
  attention.name = "attention";
  attention.summary = "Scaled dot-product attention with one scheme's positions in it.";
  attention.source = "Vaswani et al. 2017, arXiv:1706.03762, eq. 1";
  attention.parameters = {object("scheme", {{"name", "nope"}}), boolean("causal", false),
                          optional_number("scale")};
  attention.inputs = inputs;
  attention.outputs = {{"out", {"H", "Lq", "D"}}};
  attention.may_be_batched = true;
  attention.independent = {"H", "Lq"};
  attention.dims = dims;
  attention.refuse = refuse;
  attention.has_phase = has_phase;
  attention.calls = calls;
  attention.formula = in_every_arithmetic(Attention{});
  attention.bound = bound;
  attention.straddling_is_a_tie = true;
  return {"attention",
          "Scaled dot-product attention",
          "Vaswani et al. 2017, arXiv:1706.03762",
          {attention}};
}

}  // namespace posproof::reference::attention
