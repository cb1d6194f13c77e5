#include "conformance/bugs/rope_steps.hpp"

namespace posproof::bugs::rope {
namespace {

/// `call` as it was asked, `p` as it is taken.
Waves waves_of(const Steps& steps, const Call& call, const Parameters& p) {
  const std::vector<double> omega = steps.frequencies(p, call);
  const std::size_t tokens = call.inputs.integers("positions").size();
  Waves waves{xt::xarray<double>::from_shape({tokens, omega.size()}), {}};
  waves.sin = waves.cos;
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t i = 0; i < omega.size(); ++i) {
      const SinCos<double> wave = sin_cos(steps.angle(steps.position(call, t), omega[i]));
      waves.cos(t, i) = steps.kept(call, wave.cos);
      waves.sin(t, i) = steps.kept(call, wave.sin);
    }
  return steps.table(call, waves);
}

Output<double> turned(const Steps& steps, const Call& call, const Parameters& p,
                      const Waves& waves) {
  const auto& x = call.inputs.real("x");
  const std::size_t tokens = x.shape(0), heads = x.shape(1), head_dim = x.shape(2);
  const std::size_t pairs = waves.cos.shape(1);
  if (2 * pairs > head_dim) throw Refused("cos: more pairs than x has lanes");
  const std::string layout = p.text("layout");
  const double sign = p.flag("inverse") ? -1 : 1;
  const auto kept = [&](double value) { return steps.kept(call, value); };
  Output<double> y({tokens, heads, head_dim});
  for (std::size_t row = 0; row < tokens * heads; ++row)
    for (std::size_t lane = 0; lane < head_dim; ++lane)
      y.copy(row * head_dim + lane, "x", x, row * head_dim + lane);
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < pairs; ++i) {
        const auto [first, second] = steps.lanes(layout, pairs, head_dim, i);
        const double x1 = x(t, h, first), x2 = x(t, h, second);
        const auto put = [&](std::size_t lane, double value) {
          y.values(t, h, lane) = kept(value);
          y.copied_from[(t * heads + h) * head_dim + lane] = -1;
        };
        const std::size_t a = steps.angle_of(layout, pairs, i, first),
                          b = steps.angle_of(layout, pairs, i, second);
        put(first, kept(waves.cos(t, a) * x1) - kept(sign * waves.sin(t, a) * x2));
        put(second, kept(sign * waves.sin(t, b) * x1) + kept(waves.cos(t, b) * x2));
      }
  return y;
}

}  // namespace

Outputs<double> answer(const Steps& steps, const Call& call) {
  if (!has_frequencies(call) && call.operation != "rope.rotate") return right(call);
  const Parameters p = checked(with_parameters(call, steps.parameters(call)));
  if (call.operation == "rope.rotate")
    return {{"y", turned(steps, call, p, {call.inputs.real("cos"), call.inputs.real("sin")})}};
  if (call.operation == "rope.inv_freq") {
    const std::vector<double> omega = steps.frequencies(p, call);
    Output<double> frequencies({omega.size()}), factor{Shape{}};
    std::copy(omega.begin(), omega.end(), frequencies.values.begin());
    factor.values.data()[0] = 1;
    return {{"inv_freq", frequencies}, {"attention_factor", factor}};
  }
  const Waves waves = waves_of(steps, call, p);
  if (call.operation == "rope.apply") return {{"y", turned(steps, call, p, waves)}};
  Output<double> cos, sin;
  cos.values = waves.cos;
  sin.values = waves.sin;
  return {{"cos", cos}, {"sin", sin}};
}

}  // namespace posproof::bugs::rope
