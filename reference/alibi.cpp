#include "reference/alibi.hpp"

#include "reference/core/phase.hpp"

namespace posproof::reference::alibi {
namespace {

/// A base 2^(−bias_max/n) rounded once and raised to the power h+1 is off by h+1 roundings, and by
/// as many more when the power is a running product; a rounded exponent e costs e·ln 2, a power
/// function 2.
double slope_error(const Parameters& p, std::size_t h, double value, double u) {
  const auto [multiple, denominator] = exponent(p, static_cast<std::int64_t>(h));
  const double e = p.number("bias_max") * multiple / denominator;
  return (2 * static_cast<double>(h) + 4 + e * std::log(2.0)) * u * value;
}

Bounds bound_slopes(const Parameters& p, const Inputs<double>&, const Outputs<double>& estimate,
                    const Rounding& rounding) {
  Limits limits(rounding);
  const auto& slopes = estimate.at("slopes").values;
  for (std::size_t h = 0; h < slopes.size(); ++h)
    limits.element(slope_error(p, h, slopes(h), rounding.compute), slopes(h));
  return {{"slopes", limits.take()}};
}

/// The slope's error (its underflow too, which the distance multiplies), the conversion of the
/// distance and the product.
Bounds bound_bias(const Parameters& p, const Inputs<double>& in, const Outputs<double>& estimate,
                  const Rounding& rounding) {
  Limits limits(rounding);
  const auto &q_positions = in.integers("q_positions"), &k_positions = in.integers("k_positions");
  const auto& bias = estimate.at("bias").values;
  for (std::size_t h = 0; h < bias.shape(0); ++h)
    for (std::size_t i = 0; i < bias.shape(1); ++i)
      for (std::size_t j = 0; j < bias.shape(2); ++j) {
        const double value = std::fabs(bias(h, i, j));
        const double distance = std::fabs(multiplier(p, q_positions(i), k_positions(j)));
        limits.element(
            slope_error(p, static_cast<std::size_t>(head_offset(p)) + h, value, rounding.compute) +
                2 * rounding.compute * value + distance * rounding.underflow,
            value);
      }
  return {{"bias", limits.take()}};
}

void refuse_shard(const Parameters& p) {
  const std::int64_t heads = p.integer("num_heads");
  if (head_offset(p) >= heads)
    throw Refused("head_offset: found " + std::to_string(head_offset(p)) +
                  ", allowed is < num_heads = " + std::to_string(heads));
  if (head_offset(p) + local_heads(p) > heads)
    throw Refused("local_heads: found " + std::to_string(local_heads(p)) + " from head " +
                  std::to_string(head_offset(p)) +
                  ", allowed are num_heads = " + std::to_string(heads) + " in all");
}

}  // namespace

Scheme scheme() {
  using Kind = InputSpec::Kind;
  const std::vector<ParameterSpec> of_slopes{
      required_integer("num_heads").must_be_at_least(1).must_be_at_most(65536).refused_outside(),
      choice("rule", {"press", "geometric"}).convention("K-A1"),
      number("bias_max", 8).must_be_above(0).must_be_at_most(65536)};
  const ParameterSpec dtype = choice("dtype", {"f64", "f32", "f16", "bf16"});

  Operation slopes;
  slopes.name = "alibi.slopes";
  slopes.summary = "One slope per head.";
  slopes.source = "Press et al. 2021, arXiv:2108.12409, section 3";
  slopes.parameters = of_slopes;
  slopes.parameters.push_back(dtype);
  slopes.inputs = no_inputs;
  slopes.outputs = {{"slopes", {"H"}}};
  slopes.has_phase = [](const Parameters&) { return false; };
  slopes.formula = in_every_arithmetic(Slopes{});
  slopes.bound = bound_slopes;

  Operation bias = slopes;
  bias.name = "alibi.bias";
  bias.summary = "Linear penalty of distance, added to the scores.";
  bias.parameters = of_slopes;
  for (const ParameterSpec& spec :
       {boolean("causal", true), choice("form", {"distance", "key"}).convention("K-A5"),
        integer("head_offset", 0).must_be_at_least(0).must_be_at_most(65535).refused_outside(),
        optional_integer("local_heads")
            .must_be_at_least(1)
            .must_be_at_most(65536)
            .refused_outside(),
        dtype})
    bias.parameters.push_back(spec);
  bias.inputs = [](const Parameters&) {
    return std::vector<InputSpec>{{"q_positions", Kind::position, {"Lq"}},
                                  {"k_positions", Kind::position, {"Lk"}}};
  };
  bias.independent = {"Lq", "Lk"};
  bias.outputs = {{"bias", {"local_heads", "Lq", "Lk"}}};
  bias.dims = [](const Parameters& p) {
    return Dims{{"local_heads", static_cast<std::size_t>(local_heads(p))}};
  };
  bias.refuse = refuse_shard;
  bias.formula = in_every_arithmetic(Bias{});
  bias.bound = bound_bias;

  Scheme alibi{"alibi",
               "Attention with linear biases",
               "Press et al. 2021, arXiv:2108.12409",
               {slopes, bias}};
  alibi.acts_in_attention = true;
  alibi.attention.bias = "alibi.bias";
  return alibi;
}

}  // namespace posproof::reference::alibi
