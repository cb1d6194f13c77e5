#include "reference/shaw.hpp"

#include "reference/core/phase.hpp"

namespace posproof::reference::shaw {
namespace {

/// The same inputs with every real number's magnitude: what the error of a dot product follows.
Inputs<double> magnitudes(const Inputs<double>& in, std::initializer_list<const char*> reals) {
  Inputs<double> positive = in;
  for (const char* name : reals) positive.set(name, xt::xarray<double>(xt::abs(in.real(name))));
  return positive;
}

/// γ_n·Σ|a·b| + n·η of a dot product of n terms (Higham 2002, section 3.1).
Bounds bound_dot(const Outputs<double>& estimate, const Outputs<double>& magnitude,
                 const std::string& output, std::size_t terms, const Rounding& rounding) {
  const double gamma = static_cast<double>(terms) * rounding.compute;
  Limits limits(rounding);
  const auto& value = estimate.at(output).values;
  for (std::size_t i = 0; i < value.size(); ++i)
    limits.element(gamma / (1 - gamma) * magnitude.at(output).values.data()[i] +
                       static_cast<double>(terms) * rounding.underflow,
                   value.data()[i]);
  return {{output, limits.take()}};
}

Bounds bound_key_logits(const Parameters& p, const Inputs<double>& in,
                        const Outputs<double>& estimate, const Rounding& rounding) {
  const auto magnitude = KeyLogits{}(p, magnitudes(in, {"q", "relative_keys"}), Recipe::exact);
  return bound_dot(estimate, magnitude, "logits", in.real("q").shape(2), rounding);
}

Bounds bound_value_term(const Parameters& p, const Inputs<double>& in,
                        const Outputs<double>& estimate, const Rounding& rounding) {
  const auto magnitude =
      ValueTerm{}(p, magnitudes(in, {"weights", "relative_values"}), Recipe::exact);
  return bound_dot(estimate, magnitude, "out", in.real("weights").shape(2), rounding);
}

}  // namespace

Scheme scheme() {
  using Kind = InputSpec::Kind;
  const auto base = [](std::string name, std::string summary, std::string source) {
    Operation made;
    made.name = std::move(name);
    made.summary = std::move(summary);
    made.source = std::move(source);
    made.parameters = {required_integer("max_distance").must_be_at_least(0).must_be_at_most(65536),
                       choice("sign", {"k-q", "q-k"}).convention("K-S4")};
    made.dims = [](const Parameters& p) {
      return Dims{{"2k+1", static_cast<std::size_t>(2 * p.integer("max_distance") + 1)}};
    };
    made.has_phase = [](const Parameters&) { return false; };
    return made;
  };
  const InputSpec q_positions{"q_positions", Kind::position, {"Lq"}};
  const InputSpec k_positions{"k_positions", Kind::position, {"Lk"}};

  Operation key_logits = base("shaw.key_logits", "Relative-key term of the scores, unscaled.",
                              "Shaw et al. 2018, arXiv:1803.02155, eq. 4");
  key_logits.inputs = [=](const Parameters&) {
    return std::vector<InputSpec>{{"q", Kind::real, {"H", "Lq", "D"}},
                                  {"relative_keys", Kind::real, {"2k+1", "D"}},
                                  q_positions,
                                  k_positions};
  };
  key_logits.independent = {"H", "Lq", "Lk"};
  key_logits.outputs = {{"logits", {"H", "Lq", "Lk"}}};
  key_logits.formula = in_every_arithmetic(KeyLogits{});
  key_logits.bound = bound_key_logits;

  Operation value_term = base("shaw.value_term", "Relative-value term of the attention output.",
                              "Shaw et al. 2018, arXiv:1803.02155, eq. 3");
  value_term.inputs = [=](const Parameters&) {
    return std::vector<InputSpec>{{"weights", Kind::real, {"H", "Lq", "Lk"}},
                                  {"relative_values", Kind::real, {"2k+1", "D"}},
                                  q_positions,
                                  k_positions};
  };
  value_term.independent = {"H", "Lq", "D"};
  value_term.outputs = {{"out", {"H", "Lq", "D"}}};
  value_term.formula = in_every_arithmetic(ValueTerm{});
  value_term.bound = bound_value_term;

  Scheme shaw{"shaw",
              "Relative position representations",
              "Shaw et al. 2018, arXiv:1803.02155",
              {key_logits, value_term}};
  shaw.acts_in_attention = true;
  shaw.attention.key_term = "shaw.key_logits";
  shaw.attention.value_term = "shaw.value_term";
  return shaw;
}

}  // namespace posproof::reference::shaw
