#include "reference/sinusoidal.hpp"

#include <cmath>

#include "conformance/bugs/core/attention_steps.hpp"

namespace posproof::bugs::sinusoidal {
namespace {

namespace truth = reference::sinusoidal;

const std::vector<std::string> kTable{"sinusoidal.table"};

/// A table step by step.
struct Steps {
  std::function<double(const Parameters&, std::size_t i, double omega)> frequency = nullptr;
  std::function<double(const Parameters&, std::size_t i, double omega)> cos_frequency = nullptr;
  std::function<double(double position, std::size_t rows)> position = nullptr;
  std::function<double(double wave, Dtype dtype)> wave = nullptr;
  bool pads_with_cos = false;
};

Outputs<double> computed(const Steps& steps, const Call& call) {
  const Parameters p = checked(call);
  const auto& at = call.inputs.integers("positions");
  const auto d = static_cast<std::size_t>(p.integer("d_model"));
  Output<double> table({at.size(), d});
  for (std::size_t i = 0; i < d / 2; ++i) {
    const double omega = truth::frequency<double>(p, i);
    const double of_sin = steps.frequency ? steps.frequency(p, i, omega) : omega,
                 of_cos = steps.cos_frequency ? steps.cos_frequency(p, i, omega) : of_sin;
    for (std::size_t t = 0; t < at.size(); ++t) {
      double position = static_cast<double>(at(t));
      if (steps.position) position = steps.position(position, at.size());
      double sin = p.number("scale") * std::sin(position * of_sin),
             cos = p.number("scale") * std::cos(position * of_cos);
      if (steps.wave) {
        sin = steps.wave(sin, call.dtype);
        cos = steps.wave(cos, call.dtype);
      }
      table.values(t, truth::lanes(p, i).sin) = sin;
      table.values(t, truth::lanes(p, i).cos) = cos;
    }
  }
  if (steps.pads_with_cos && d % 2 != 0)
    for (std::size_t t = 0; t < at.size(); ++t)
      table.values(t, d - 1) = std::cos(static_cast<double>(at(t)));
  return {{"table", table}};
}

BugModel by(const Words& words, Steps steps) {
  return model(words, kTable,
               [steps = std::move(steps)](const Call& call) { return computed(steps, call); });
}

BugModel asked_with(const Words& words, Call (*changed)(const Call&)) {
  return model(words, kTable, [changed](const Call& call) {
    checked(call);
    return right(changed(call));
  });
}

Call other_layout(const Call& call) {
  return with_parameter(call, "layout",
                        checked(call).text("layout") == "interleaved" ? "concat" : "interleaved");
}

Call other_denominator(const Call& call) {
  return with_parameter(call, "denominator",
                        checked(call).text("denominator") == "half" ? "half_minus_one" : "half");
}

Outputs<double> odd_accepted(const Call& call) {
  const bool odd = call.parameters.value("d_model", 2) % 2 != 0;
  return right(odd ? with_parameter(call, "odd", "zero_pad") : call);
}

}  // namespace

std::vector<BugModel> models() {
  const char* const kOtherModel = "another encoding than the checkpoint was trained with";
  return {
      by({"K-N1", "", "the exponent doubled", kOtherModel,
          "10000^(2i/d) with i the pair, not the lane"},
         {.frequency = [](const Parameters&, std::size_t, double omega) { return omega * omega; }}),
      by({"K-N2", "", "the cosine has a frequency of its own", "pairs leave the unit circle",
          "sine and cosine of pair i share 10000^(2i/d)"},
         {.cos_frequency =
              [](const Parameters& p, std::size_t i, double) {
                return std::pow(p.number("base"), -static_cast<double>(2 * i + 1) /
                                                      static_cast<double>(p.integer("d_model")));
              }}),
      by({"K-N2", "doubled", "the cosine has twice the exponent of its lane",
          "pairs leave the unit circle", "sine and cosine of pair i share 10000^(2i/d)"},
         {.cos_frequency =
              [](const Parameters& p, std::size_t i, double) {
                return std::pow(p.number("base"), -2 * static_cast<double>(2 * i + 1) /
                                                      static_cast<double>(p.integer("d_model")));
              }}),
      asked_with({"K-N3", "", "base 1000", kOtherModel, "10000 in the paper"},
                 [](const Call& call) { return with_parameter(call, "base", 1000); }),
      by({"K-N4", "", "integer division in the exponent: frequencies e^(−2i)", kOtherModel,
          "(−ln(base)/d) before it multiplies"},
         {.frequency =
              [](const Parameters& p, std::size_t i, double) {
                return std::exp(2 * static_cast<double>(i) *
                                std::floor(-std::log(p.number("base")) /
                                           static_cast<double>(p.integer("d_model")) / 2));
              }}),
      by({"K-N5", "", "integer arithmetic makes all frequencies 1", "pairs repeat the first one",
          "compute the exponents in floating point"},
         {.frequency = [](const Parameters&, std::size_t, double) { return 1.0; }}),
      asked_with({"K-N6", "", "another order of sines and cosines", kOtherModel,
                  "interleaved in the paper, concatenated in tensor2tensor"},
                 other_layout),
      asked_with({"K-N7", "", "d/2 − 1 where d/2 is meant, or the reverse", kOtherModel,
                  "d/2 in the paper, d/2 − 1 in tensor2tensor"},
                 other_denominator),
      by({"K-N9", "pad", "the column of an odd width holds a cosine", "one lane of noise",
          "zeros in the last column"},
         {.pads_with_cos = true}),
      model({"K-N9", "accepted", "pads an odd width unasked", "shapes that fit by accident",
             "refuse an odd d_model"},
            kTable, odd_accepted),
      by({"K-N10", "", "positions count from padding_idx + 1", "every token is two further on",
          "begin at 0"},
         {.position = [](double position, std::size_t) { return position + 2; }}),
      by({"K-N11", "", "a table of as many rows as tokens, its last row for all beyond",
          "decoding repeats one position", "grow the table with the past length"},
         {.position =
              [](double position, std::size_t rows) {
                return std::min(position, static_cast<double>(rows) - 1);
              }}),
      by({"K-N12", "positions", "positions rounded to bf16", "positions 256 and 257 coincide",
          "keep positions as integers until the product"},
         {.position = [](double position,
                         std::size_t) { return rounded_to(Dtype::bf16, position); }}),
      by({"K-N12", "table", "the table rounded to bf16 under wider types",
          "neighbours at low frequencies coincide", "compute it in the type it is used in"},
         {.wave =
              [](double wave, Dtype dtype) {
                return is_16_bit(dtype) ? wave : rounded_to(Dtype::bf16, wave);
              }}),
  };
}

}  // namespace posproof::bugs::sinusoidal
