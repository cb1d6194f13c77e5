#include "reference/sinusoidal.hpp"

namespace posproof::reference::sinusoidal {
namespace {

Bounds bound(const Parameters& p, const Inputs<double>& in, const Outputs<double>& estimate,
             const Rounding& rounding) {
  const auto& positions = in.integers("positions");
  const auto d = static_cast<std::size_t>(p.integer("d_model"));
  const double log_base = std::log(p.number("base"));
  std::vector<std::size_t> pair_of(d, d);
  for (std::size_t i = 0; i < d / 2; ++i) pair_of[lanes(p, i).sin] = pair_of[lanes(p, i).cos] = i;
  Limits limits(rounding);
  for (std::size_t t = 0; t < positions.size(); ++t)
    for (std::size_t lane = 0; lane < d; ++lane) {
      const std::size_t i = pair_of[lane];
      if (i == d) {
        limits.no_evidence(0);
        continue;
      }
      const double x = i == 0 ? 0 : static_cast<double>(i) / exponent_denominator(p) * log_base;
      const double angle = static_cast<double>(positions(t)) * frequency<double>(p, i);
      limits.table_element(
          p.number("scale"), estimate.at("table").values(t, lane),
          phase_coefficient(x, static_cast<double>(i), 0) * rounding.phase * std::fabs(angle));
    }
  return {{"table", limits.take()}};
}

void refuse(const Parameters& p) {
  if (p.integer("d_model") % 2 != 0 && p.text("odd") == "refuse")
    throw Refused("d_model: found " + std::to_string(p.integer("d_model")) +
                  ", allowed is an even number unless odd is zero_pad");
}

}  // namespace

Scheme scheme() {
  Operation table;
  table.name = "sinusoidal.table";
  table.summary = "Rows of the sinusoidal absolute position encoding.";
  table.source = "Vaswani et al. 2017, arXiv:1706.03762, section 3.5";
  table.parameters = {
      required_integer("d_model").must_be_at_least(1).must_be_at_most(65536),
      number("base", 10000).must_be_above(0).refused_outside(),
      choice("layout", {"interleaved", "concat", "concat_cos_first"}).convention("K-N6"),
      choice("denominator", {"half", "half_minus_one"}).convention("K-N7"),
      choice("odd", {"refuse", "zero_pad"}),
      number("scale", 1),
      choice("dtype", {"f64", "f32", "f16", "bf16"})};
  table.inputs = [](const Parameters&) {
    return std::vector<InputSpec>{{"positions", InputSpec::Kind::position, {"L"}}};
  };
  table.independent = {"L"};
  table.outputs = {{"table", {"L", "d_model"}}};
  table.refuse = refuse;
  table.has_phase = [](const Parameters&) { return true; };
  table.formula = in_every_arithmetic(Table{});
  table.bound = bound;
  return {"sinusoidal",
          "Sinusoidal absolute position encoding",
          "Vaswani et al. 2017, arXiv:1706.03762",
          {table}};
}

}  // namespace posproof::reference::sinusoidal
