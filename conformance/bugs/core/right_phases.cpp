#include <cmath>

#include "conformance/bugs/core/right.hpp"
#include "conformance/bugs/rope_steps.hpp"
#include "reference/sinusoidal.hpp"

namespace posproof::bugs {
namespace {

namespace truth = reference::rope;

/// base^(−2i/r), computed in Phase.
enum class Way { power, exp_of_log, running_product };

template <class Phase>
Phase frequency(Way way, double base, double exponent, std::size_t i) {
  const auto b = static_cast<Phase>(base), e = static_cast<Phase>(exponent);
  switch (way) {
    case Way::power:
      return 1 / std::pow(b, e * static_cast<Phase>(i));
    case Way::exp_of_log:
      return std::exp(-e * static_cast<Phase>(i) * std::log(b));
    case Way::running_product:
      break;
  }
  const Phase ratio = std::pow(b, -e);
  Phase product = 1;
  for (std::size_t n = 0; n < i; ++n) product *= ratio;
  return product;
}

template <class Phase>
rope::Steps rope_steps(Way way) {
  rope::Steps steps;
  steps.frequencies = [way](const Parameters& p, const Call&) {
    std::vector<double> omega(truth::pair_count(p));
    for (std::size_t i = 0; i < omega.size(); ++i) {
      const Phase own = frequency<Phase>(way, p.number("rope_theta"),
                                         2 / static_cast<double>(truth::rotary_dim(p)), i);
      omega[i] =
          truth::is_linear(p) ? own / static_cast<Phase>(p.number("rope_scaling.factor")) : own;
    }
    return omega;
  };
  steps.angle = [](double position, double omega) {
    return static_cast<double>(static_cast<Phase>(position) * static_cast<Phase>(omega));
  };
  steps.table = [](const Call&, rope::Waves waves) {
    for (double& cos : waves.cos) cos = static_cast<Phase>(cos);
    for (double& sin : waves.sin) sin = static_cast<Phase>(sin);
    return waves;
  };
  return steps;
}

Answering rope_by(rope::Steps steps) {
  return [steps = std::move(steps)](const Call& call) { return rope::answer(steps, call); };
}

template <class Phase>
Answering sinusoidal_by(Way way) {
  return [way](const Call& call) {
    const Parameters p = checked(call);
    const auto& at = call.inputs.integers("positions");
    const auto d = static_cast<std::size_t>(p.integer("d_model"));
    Output<double> table({at.size(), d});
    for (std::size_t i = 0; i < d / 2; ++i) {
      const Phase omega =
          i == 0 ? 1
                 : frequency<Phase>(way, p.number("base"),
                                    1 / reference::sinusoidal::exponent_denominator(p), i);
      for (std::size_t t = 0; t < at.size(); ++t) {
        const Phase angle = static_cast<Phase>(at(t)) * omega;
        const auto scale = static_cast<Phase>(p.number("scale"));
        const auto lanes = reference::sinusoidal::lanes(p, i);
        table.values(t, lanes.sin) = static_cast<double>(scale * std::sin(angle));
        table.values(t, lanes.cos) = static_cast<double>(scale * std::cos(angle));
      }
    }
    return Outputs<double>{{"table", table}};
  };
}

/// Table, products and sum are rounded to the type of 16-bit inputs.
rope::Steps rounded_at_every_step() {
  rope::Steps steps = rope_steps<float>(Way::power);
  steps.kept = [](const Call& call, double x) {
    return is_16_bit(call.dtype) ? rounded_to(call.dtype, x) : x;
  };
  return steps;
}

}  // namespace

std::vector<RightVariation> right_phases() {
  const std::vector<std::string> table{"sinusoidal.table"},
      kTables{"rope.inv_freq", "rope.cos_sin", "rope.apply"};
  std::vector<RightVariation> all;
  const std::pair<Way, const char*> ways[]{{Way::power, "power"},
                                           {Way::exp_of_log, "exp of log"},
                                           {Way::running_product, "running product"}};
  for (const auto& [way, how] : ways) {
    const std::string by = std::string(", frequencies by ") + how;
    all.push_back({"rope in f32" + by, kTables, rope_by(rope_steps<float>(way))});
    all.push_back({"rope in f64" + by, kTables, rope_by(rope_steps<double>(way))});
    all.push_back({"sinusoidal in f32" + by, table, sinusoidal_by<float>(way)});
    all.push_back({"sinusoidal in f64" + by, table, sinusoidal_by<double>(way)});
  }
  all.push_back({"rope with every step rounded to 16-bit inputs' type",
                 {"rope.apply"},
                 rope_by(rounded_at_every_step())});
  return all;
}

}  // namespace posproof::bugs
