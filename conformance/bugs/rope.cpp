#include "conformance/bugs/rope_steps.hpp"
#include "reference/core/registry.hpp"
#include "reference/core/truth.hpp"

namespace posproof::bugs::rope {
namespace {

void swap_layout(json& p) {
  const std::string other = p.value("layout", "half") == "half" ? "interleaved" : "half";
  p["layout"] = other;
}

void turn_back(json& p) { p["inverse"] = !p.value("inverse", false); }

Steps angles_from_the_other_layout() {
  Steps steps;
  steps.angle_of = [](const std::string& layout, std::size_t pairs, std::size_t, std::size_t lane) {
    return layout == "half" ? lane / 2 : lane % pairs;
  };
  return steps;
}

Steps partner_half_a_head_away() {
  Steps steps;
  steps.lanes = [](const std::string& layout, std::size_t pairs, std::size_t head_dim,
                   std::size_t i) {
    return layout == "half" ? formula::Lanes{i, i + head_dim / 2}
                            : formula::lanes(layout, pairs, i);
  };
  return steps;
}

Steps head_dim_in_the_exponent() {
  Steps steps;
  steps.frequencies = [](const Parameters& p, const Call&) {
    std::vector<double> omega = formula::inv_freq<double>(p, Recipe::exact);
    for (std::size_t i = 0; i < omega.size(); ++i)
      omega[i] = power(p.number("rope_theta"),
                       -2.0 * static_cast<double>(i) / static_cast<double>(p.integer("head_dim"))) /
                 (formula::is_linear(p) ? p.number("rope_scaling.factor") : 1);
    return omega;
  };
  return steps;
}

void all_lanes(json& p) {
  p.erase("rotary_dim");
  p.erase("partial_rotary_factor");
}

/// int(f·int(f·D)), made even so that there is something to turn.
void factor_twice(json& p) {
  const Parameters taken = checked_parameters(find_operation("rope.inv_freq"), [&p] {
    json without = p;
    for (const char* name : {"layout", "inverse"}) without.erase(name);
    return without;
  }());
  const std::int64_t r = formula::rotary_dim(taken), head_dim = taken.integer("head_dim");
  all_lanes(p);
  p["rotary_dim"] = std::max<std::int64_t>(2, r * r / head_dim / 2 * 2);
}

/// The tail of y, which is copied, holds something else.
Answering with_tail(std::function<double(const Output<double>&, const Call&, std::size_t)> tail) {
  return [tail = std::move(tail)](const Call& call) {
    Outputs<double> outputs = right(call);
    if (const auto y = outputs.find("y"); y != outputs.end()) {
      const Output<double> was = y->second;
      for (std::size_t i = 0; i < was.copied_from.size(); ++i)
        if (was.copied_from[i] >= 0) {
          y->second.values.data()[i] = tail(was, call, i);
          y->second.copied_from[i] = -1;
        }
    }
    return outputs;
  };
}

double packed_tail(const Output<double>& y, const Call& call, std::size_t flat) {
  const std::size_t width = y.values.shape(2), lane = flat % width;
  return call.inputs.real("x").data()[flat - lane + lane / 2];
}

std::int64_t asked_rotary_dim(const json& p) {
  const auto head_dim = p.value("head_dim", std::int64_t{0});
  if (p.contains("partial_rotary_factor"))
    return static_cast<std::int64_t>(static_cast<double>(head_dim) *
                                     p.value("partial_rotary_factor", 1.0));
  return p.value("rotary_dim", head_dim);
}

/// arange(0, r, 2) of an odd r has (r + 1)/2 entries; as many pairs turn as fit the head.
Steps odd_rotary_dim() {
  Steps steps = taking_frequencies([](json& p) {
    const std::int64_t r = asked_rotary_dim(p), head_dim = p.value("head_dim", std::int64_t{0});
    if (r % 2 == 0 || r > head_dim) return;
    all_lanes(p);
    p["rotary_dim"] = r < head_dim ? r + 1 : r - 1;
  });
  steps.frequencies = [](const Parameters& p, const Call& call) {
    const std::int64_t r = asked_rotary_dim(call.parameters);
    std::vector<double> omega = formula::inv_freq<double>(p, Recipe::exact);
    if (r % 2 == 0) return omega;
    if (call.operation != "rope.apply") omega.resize(static_cast<std::size_t>(r + 1) / 2);
    for (std::size_t i = 0; i < omega.size(); ++i)
      omega[i] =
          power(p.number("rope_theta"), -2.0 * static_cast<double>(i) / static_cast<double>(r)) /
          (formula::is_linear(p) ? p.number("rope_scaling.factor") : 1);
    return omega;
  };
  return steps;
}

Steps sine_negated_in_the_table() {
  Steps steps;
  steps.table = [](const Call&, Waves waves) {
    waves.sin = -waves.sin;
    return waves;
  };
  return steps;
}

std::function<void(json&)> with_factor(std::function<double(double)> change) {
  return [change = std::move(change)](json& p) {
    const auto factor = pointer_to("rope_scaling.factor");
    if (p.contains(factor) && p.at(factor).is_number() && p.at(factor).get<double>() > 0)
      p.at(factor) = change(p.at(factor).get<double>());
  };
}

std::string rope_type(const json& p) {
  const auto type = pointer_to("rope_scaling.rope_type");
  if (!p.contains(type)) return "default";
  return p.at(type).is_string() ? p.at(type).get<std::string>() : "";
}

void default_when_unknown(json& p) {
  if (rope_type(p) != "default" && rope_type(p) != "linear") p.erase("rope_scaling");
}

void scaled_by_2(json& p) {
  if (rope_type(p) == "default") p["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
}

bool has_a_bad_base(const json& p) {
  return p.contains("rope_theta") && p["rope_theta"].is_number() &&
         p["rope_theta"].get<double>() <= 0;
}

/// pow(0, −x) is infinite and pow of a negative base a NaN.
Steps any_base() {
  Steps steps = taking_frequencies([](json& p) {
    if (has_a_bad_base(p)) p["rope_theta"] = 10000;
  });
  steps.frequencies = [](const Parameters& p, const Call& call) {
    std::vector<double> omega = formula::inv_freq<double>(p, Recipe::exact);
    if (has_a_bad_base(call.parameters))
      for (std::size_t i = 0; i < omega.size(); ++i)
        omega[i] = std::pow(call.parameters["rope_theta"].get<double>(),
                            -static_cast<double>(i) / static_cast<double>(omega.size()));
    return omega;
  };
  return steps;
}

}  // namespace

std::vector<BugModel> models() {
  std::vector<BugModel> all{
      model(
          {"K-RL1", "", "turns pairs of the other layout",
           "fluent nonsense: every score at position > 0 is wrong, norms and position 0 are right",
           "pair lanes (i, i + r/2) for half and (2i, 2i + 1) for interleaved, or permute the "
           "rows of the q and k weights"},
          kTurning, taking_rotation(swap_layout)),
      model({"K-RL5", "", "turns the lanes of a pair by the angles of two pairs",
             "norms change with the position",
             "spread the table the way lanes are paired: [t, t] for half, [t0, t0, t1, t1, …] for "
             "interleaved"},
            kTurning, angles_from_the_other_layout()),
      model({"K-RL6", "in the rotation", "turns backwards", "scores follow the negated offset",
             "use [[cos, −sin], [sin, cos]]; its transpose only "
             "for inverse"},
            kTurning, taking_rotation(turn_back)),
      model({"K-RL6", "in the table", "negates sin in the table",
             "scores follow the negated offset", "store sin(p·ω), not sin(−p·ω)"},
            kAngles, sine_negated_in_the_table()),
      model({"K-RD1", "exponent", "divides the exponent by head_dim under partial rotary",
             "all pairs but the first turn too fast", "use rope_theta^(−2i/rotary_dim)"},
            kFrequencies, head_dim_in_the_exponent()),
      model({"K-RD1", "partner", "pairs lane i with i + head_dim/2 under partial rotary",
             "lanes that must not change do, others do not turn",
             "pair lane i with i + rotary_dim/2"},
            kTurning, partner_half_a_head_away()),
      model({"K-RD2", "ignored", "turns all lanes under partial rotary",
             "the tail carries positions it was not trained on", "turn the first rotary_dim lanes"},
            kFrequencies, taking_frequencies(all_lanes)),
      model({"K-RD2", "applied twice", "multiplies rotary_dim by the partial factor again",
             "part of the rotated lanes do not turn",
             "apply partial_rotary_factor to head_dim, once"},
            kFrequencies, taking_frequencies(factor_twice)),
      model({"K-RD4", "left out", "leaves the tail unwritten",
             "zeros or garbage in lanes from rotary_dim on", "copy the lanes from rotary_dim on"},
            kTurning,
            with_tail([](const Output<double>&, const Call&, std::size_t) { return 0.0; })),
      model({"K-RD4", "packed index", "copies the tail from lane/2",
             "lanes from rotary_dim on hold rotated lanes' inputs", "copy lane l from lane l"},
            kTurning, with_tail(packed_tail)),
      model({"K-RD6", "", "takes an odd rotary_dim", "one frequency more than there are pairs",
             "refuse an odd rotary_dim"},
            {"rope.inv_freq", "rope.cos_sin", "rope.apply"}, odd_rotary_dim()),
      model({"K-RB1", "10000", "uses base 10000 always",
             "long contexts fail on models with another rope_theta", "read rope_theta"},
            kFrequencies, taking_frequencies([](json& p) { p.erase("rope_theta"); })),
      model({"K-RB1", "1000", "uses base 1000 where 10000 is meant",
             "every pair but the first turns too fast", "the default base is 10000"},
            kFrequencies, taking_frequencies([](json& p) {
              if (p.value("rope_theta", 10000.0) == 10000) p["rope_theta"] = 1000;
            })),
      model({"K-RS1", "", "ignores linear scaling", "nonsense beyond the original context",
             "divide the frequencies by the factor"},
            kFrequencies, taking_frequencies(with_factor([](double) { return 1.0; }))),
      model({"K-RS2", "", "takes an unknown rope_type for default",
             "a model with scaling runs without it, silently",
             "refuse a rope_type that you do not know, by name"},
            {"rope.inv_freq", "rope.cos_sin", "rope.apply"},
            taking_frequencies(default_when_unknown)),
      model({"K-RS3", "", "divides by the factor twice",
             "positions are squeezed by the square of the factor",
             "scale either positions or frequencies"},
            kFrequencies, taking_frequencies(with_factor([](double f) { return f * f; }))),
      model({"K-RS4", "", "halves the frequencies where no scaling is asked",
             "a plain model behaves as if interpolated by 2", "rope_type default scales nothing"},
            kFrequencies, taking_frequencies(scaled_by_2)),
      model({"K-RS5", "", "multiplies by the factor instead of dividing",
             "a longer context turns faster, not slower", "divide the frequencies by the factor"},
            kFrequencies, taking_frequencies(with_factor([](double f) { return 1 / f; }))),
      model({"K-NP3", "", "takes a base that is not positive", "NaN in every layer",
             "refuse rope_theta <= 0, or leave rope out of a model that has none"},
            {"rope.inv_freq", "rope.cos_sin", "rope.apply"}, any_base())};
  std::vector<BugModel> more = models_of_tables();
  std::move(more.begin(), more.end(), std::back_inserter(all));
  return all;
}

}  // namespace posproof::bugs::rope
