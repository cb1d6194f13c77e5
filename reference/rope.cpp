#include "reference/rope.hpp"

namespace posproof::reference::rope {
namespace {

/// |δθ| of pair i at position p for an honest implementation.
double phase_error(const Parameters& p, double position, std::size_t i, double omega,
                   const Rounding& rounding) {
  const double x = 2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim(p)) *
                   std::log(p.number("rope_theta"));
  return phase_coefficient(x, static_cast<double>(i), is_linear(p) ? 1 : 0) * rounding.phase *
         std::fabs(position * omega);
}

Bounds bound_inv_freq(const Parameters& p, const Inputs<double>&, const Outputs<double>& estimate,
                      const Rounding& rounding) {
  Limits frequencies(rounding), factor(rounding);
  const auto& omega = estimate.at("inv_freq").values;
  for (std::size_t i = 0; i < omega.size(); ++i)
    frequencies.element(phase_error(p, 1, i, omega(i), rounding), omega(i));
  factor.element(0, 1);
  return {{"inv_freq", frequencies.take()}, {"attention_factor", factor.take()}};
}

Bounds bound_cos_sin(const Parameters& p, const Inputs<double>& in, const Outputs<double>& estimate,
                     const Rounding& rounding) {
  const auto& positions = in.integers("positions");
  const std::vector<double> omega = inv_freq<double>(p, Recipe::exact);
  Bounds bounds;
  for (const char* name : {"cos", "sin"}) {
    Limits limits(rounding);
    for (std::size_t t = 0; t < positions.size(); ++t)
      for (std::size_t i = 0; i < omega.size(); ++i)
        limits.table_element(
            attention_factor<double>(p), estimate.at(name).values(t, i),
            phase_error(p, static_cast<double>(positions(t)), i, omega[i], rounding));
    bounds[name] = limits.take();
  }
  return bounds;
}

/// Per lane of one row: the pair it belongs to, or pairs for a copied lane.
std::vector<std::size_t> pair_of_lane(const Parameters& p, std::size_t head_dim,
                                      std::size_t pairs) {
  std::vector<std::size_t> pair(head_dim, pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto [first, second] = lanes(p.text("layout"), pairs, i);
    pair[first] = pair[second] = i;
  }
  return pair;
}

/// Calls limit(t, h, lane, pair, x1, x2) for each rotated lane, and copied() for the others.
template <class Limit>
Bounds over_lanes(const Parameters& p, const Inputs<double>& in, std::size_t pairs, Limits& limits,
                  Limit limit) {
  const auto& x = in.real("x");
  const std::vector<std::size_t> pair = pair_of_lane(p, x.shape(2), pairs);
  for (std::size_t t = 0; t < x.shape(0); ++t)
    for (std::size_t h = 0; h < x.shape(1); ++h)
      for (std::size_t lane = 0; lane < x.shape(2); ++lane) {
        if (pair[lane] == pairs) {
          limits.copied();
          continue;
        }
        const auto [first, second] = lanes(p.text("layout"), pairs, pair[lane]);
        limit(t, h, lane, pair[lane], x(t, h, first), x(t, h, second));
      }
  return {{"y", limits.take()}};
}

Bounds bound_apply(const Parameters& p, const Inputs<double>& in, const Outputs<double>& estimate,
                   const Rounding& rounding) {
  const auto& positions = in.integers("positions");
  const std::vector<double> omega = inv_freq<double>(p, Recipe::exact);
  const auto& y = estimate.at("y").values;
  Limits limits(rounding);
  return over_lanes(
      p, in, omega.size(), limits,
      [&](std::size_t t, std::size_t h, std::size_t lane, std::size_t i, double x1, double x2) {
        limits.rotated_element(
            attention_factor<double>(p), x1, x2, y(t, h, lane),
            phase_error(p, static_cast<double>(positions(t)), i, omega[i], rounding));
      });
}

/// Two products and a sum: 2u of Σ|x·wave|.
Bounds bound_rotate(const Parameters& p, const Inputs<double>& in, const Outputs<double>& estimate,
                    const Rounding& rounding) {
  const auto& cos = in.real("cos");
  const auto& sin = in.real("sin");
  const auto& y = estimate.at("y").values;
  const double u = rounding.compute + rounding.stored;
  Limits limits(rounding);
  return over_lanes(
      p, in, cos.shape(1), limits,
      [&](std::size_t t, std::size_t h, std::size_t lane, std::size_t i, double x1, double x2) {
        const bool is_first = lane == lanes(p.text("layout"), cos.shape(1), i).first;
        const double products = std::fabs(x1 * (is_first ? cos(t, i) : sin(t, i))) +
                                std::fabs(x2 * (is_first ? sin(t, i) : cos(t, i)));
        limits.element((2 * u + u * u) * products, y(t, h, lane));
      });
}

void refuse(const Parameters& p) {
  const std::int64_t r = rotary_dim(p), head_dim = p.integer("head_dim");
  if (p.has("rotary_dim") && p.has("partial_rotary_factor")) {
    const auto product = static_cast<std::int64_t>(static_cast<double>(head_dim) *
                                                   p.number("partial_rotary_factor"));
    if (product != r)
      throw Refused("partial_rotary_factor: found " + p.given()["partial_rotary_factor"].dump() +
                    ", which makes rotary_dim " + std::to_string(product) +
                    "; allowed is agreement with rotary_dim = " + std::to_string(r));
  }
  if (r % 2 != 0 || r < 2 || r > head_dim)
    throw Refused("rotary_dim: found " + std::to_string(r) +
                  ", allowed is an even number from 2 to head_dim = " + std::to_string(head_dim));
  if (is_linear(p) && !p.has("rope_scaling.factor"))
    throw Refused("rope_scaling.factor: missing; rope_type linear needs a number > 0");
}

std::vector<ParameterSpec> frequency_parameters() {
  return {required_integer("head_dim").must_be_at_least(1).must_be_at_most(65536),
          optional_integer("rotary_dim"),
          optional_number("partial_rotary_factor").must_be_above(0).must_be_at_most(1),
          number("rope_theta", 10000).must_be_above(0).refused_outside(),
          optional_integer("max_position_embeddings").must_be_at_least(1),
          optional_integer("seq_len").must_be_at_least(1),
          choice("rope_scaling.rope_type", {"default", "linear"}).refused_outside(),
          optional_number("rope_scaling.factor").must_be_above(0)};
}

Operation operation(std::string name, std::string summary, std::string source,
                    std::vector<ParameterSpec> own, std::vector<InputSpec> inputs,
                    std::vector<OutputSpec> outputs) {
  Operation made;
  made.name = std::move(name);
  made.summary = std::move(summary);
  made.source = std::move(source);
  made.parameters = std::move(own);
  made.inputs = [inputs](const Parameters&) { return inputs; };
  made.outputs = std::move(outputs);
  made.has_phase = [](const Parameters&) { return true; };
  return made;
}

std::vector<ParameterSpec> joined(std::vector<ParameterSpec> first,
                                  const std::vector<ParameterSpec>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

Scheme scheme() {
  using Kind = InputSpec::Kind;
  const std::vector<ParameterSpec> layout{
      choice("layout", {"half", "interleaved"}).convention("K-RL1"), boolean("inverse", false)};
  const std::vector<ParameterSpec> dtype{choice("dtype", {"f64", "f32", "f16", "bf16"})};
  const InputSpec positions{"positions", Kind::position, {"T"}};
  const InputSpec x{"x", Kind::real, {"T", "H", "D"}};
  const auto dims = [](const Parameters& p) {
    return Dims{{"D", static_cast<std::size_t>(p.integer("head_dim"))}, {"r/2", pair_count(p)}};
  };

  Operation frequencies =
      operation("rope.inv_freq", "Frequencies of the pairs and the factor on cos and sin.",
                "Su et al. 2021, arXiv:2104.09864, eq. 15", joined(frequency_parameters(), dtype),
                {}, {{"inv_freq", {"r/2"}}, {"attention_factor", {}}});
  frequencies.formula = in_every_arithmetic(InvFreq{});
  frequencies.bound = bound_inv_freq;
  frequencies.recipes = {Recipe::hf_f32};

  Operation table =
      operation("rope.cos_sin", "cos and sin of position times frequency.",
                "Su et al. 2021, arXiv:2104.09864, eq. 34", joined(frequency_parameters(), dtype),
                {positions}, {{"cos", {"T", "r/2"}}, {"sin", {"T", "r/2"}}});
  table.formula = in_every_arithmetic(CosSin{});
  table.bound = bound_cos_sin;
  table.independent = {"T"};

  Operation apply = operation(
      "rope.apply", "x rotated by its positions.", "Su et al. 2021, arXiv:2104.09864, eq. 14",
      joined(frequency_parameters(), layout), {x, positions}, {{"y", {"T", "H", "D"}}});
  apply.formula = in_every_arithmetic(Apply{});
  apply.bound = bound_apply;
  apply.may_be_batched = true;
  apply.independent = {"T", "H"};

  for (Operation* made : {&frequencies, &table, &apply}) {
    made->refuse = refuse;
    made->dims = dims;
  }
  for (Operation* made : {&table, &apply}) made->recipes = {Recipe::hf_f32, Recipe::ggml_f32_chain};

  Operation rotate = operation(
      "rope.rotate", "x rotated by given cos and sin.", "Su et al. 2021, arXiv:2104.09864, eq. 34",
      layout, {x, {"cos", Kind::real, {"T", "r/2"}}, {"sin", Kind::real, {"T", "r/2"}}},
      {{"y", {"T", "H", "D"}}});
  rotate.formula = in_every_arithmetic(Rotate{});
  rotate.bound = bound_rotate;
  rotate.may_be_batched = true;
  rotate.independent = {"T", "H"};
  rotate.has_phase = [](const Parameters&) { return false; };

  Scheme rope{"rope",
              "Rotary position embedding",
              "Su et al. 2021, arXiv:2104.09864",
              {frequencies, table, apply, rotate}};
  rope.acts_in_attention = true;
  rope.attention.rotates = "rope.apply";
  return rope;
}

}  // namespace posproof::reference::rope
