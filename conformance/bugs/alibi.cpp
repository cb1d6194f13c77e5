#include "reference/alibi.hpp"

#include "conformance/bugs/core/attention_steps.hpp"

namespace posproof::bugs::alibi {
namespace {

namespace truth = reference::alibi;

const std::vector<std::string> kBoth{"alibi.slopes", "alibi.bias"};
const std::vector<std::string> kBias{"alibi.bias"};

/// Slopes and biases step by step.
struct Steps {
  std::function<double(const Parameters&, std::int64_t head, double slope, Dtype)> slope = nullptr;
  std::function<double(double slope, double distance, Dtype)> product = nullptr;
  std::function<double(std::int64_t query, double distance)> distance = nullptr;
  std::function<std::int64_t(const Parameters&, std::int64_t local)> head = nullptr;
};

double slope_of(const Steps& steps, const Parameters& p, std::int64_t h, Dtype dtype) {
  const double slope = truth::slope<double>(p, h);
  return steps.slope ? steps.slope(p, h, slope, dtype) : slope;
}

Outputs<double> computed(const Steps& steps, const Call& call) {
  const Parameters p = checked(call);
  Outputs<double> outputs = right(call);
  if (call.operation == "alibi.slopes") {
    auto& slopes = outputs.at("slopes").values;
    for (std::size_t h = 0; h < slopes.size(); ++h)
      slopes(h) = slope_of(steps, p, static_cast<std::int64_t>(h), call.dtype);
    return outputs;
  }
  auto& bias = outputs.at("bias").values;
  const auto& q_at = call.inputs.integers("q_positions");
  const auto& k_at = call.inputs.integers("k_positions");
  for (std::size_t h = 0; h < bias.shape(0); ++h) {
    const auto local = static_cast<std::int64_t>(h);
    const double slope = slope_of(
        steps, p, steps.head ? steps.head(p, local) : local + p.integer("head_offset"), call.dtype);
    for (std::size_t i = 0; i < q_at.size(); ++i)
      for (std::size_t j = 0; j < k_at.size(); ++j) {
        double distance = static_cast<double>(k_at(j) - q_at(i));
        if (p.text("form") == "key")
          distance = static_cast<double>(k_at(j));
        else if (!p.flag("causal"))
          distance = -std::fabs(distance);
        if (steps.distance) distance = steps.distance(q_at(i), distance);
        bias(h, i, j) =
            steps.product ? steps.product(slope, distance, call.dtype) : slope * distance;
      }
  }
  return outputs;
}

BugModel by(const Words& words, const std::vector<std::string>& operations, Steps steps) {
  return model(words, operations,
               [steps = std::move(steps)](const Call& call) { return computed(steps, call); });
}

Call other_rule(const Call& call) {
  return with_parameter(call, "rule",
                        checked(call).text("rule") == "press" ? "geometric" : "press");
}

Call other_form(const Call& call) {
  return with_parameter(call, "form", checked(call).text("form") == "key" ? "distance" : "key");
}

Outputs<double> none_while_decoding(const Call& call) {
  Outputs<double> outputs = right(call);
  if (call.inputs.integers("q_positions").size() == 1) outputs.at("bias").values.fill(0);
  return outputs;
}

/// The slopes of a model with as many heads as the shard.
Outputs<double> shard_as_a_whole(const Call& call) {
  const Parameters p = checked(call);
  const Call slopes_of_a_whole =
      with_parameter(without_parameter(without_parameter(call, "head_offset"), "local_heads"),
                     "num_heads", truth::local_heads(p));
  return right(slopes_of_a_whole);
}

Outputs<double> scaled(const Call& call) {
  AttentionSteps steps;
  steps.scales_the_bias = true;
  return attention_with(steps, call);
}

}  // namespace

std::vector<BugModel> models() {
  return {
      model({"K-A1", "", "the other rule for head counts that are no power of two",
             "some heads look too far, some too near",
             "slopes of the power of two below, then every other one of twice that"},
            kBoth, [](const Call& call) { return right(other_rule(call)); }),
      by({"K-A2", "", "slopes counted from head 0", "the first head does not look past itself",
          "2^(−8(h + 1)/n) with h from 0"},
         kBoth,
         {.slope =
              [](const Parameters& p, std::int64_t h, double, Dtype) {
                const truth::Exponent e = truth::exponent(p, h);
                return std::exp2(-p.number("bias_max") * (e.multiple - 1) / e.denominator);
              }}),
      by({"K-A3", "", "the bias added where it is subtracted", "far tokens are preferred",
          "slope·(j − i), negative for keys before the query"},
         kBias,
         {.product = [](double slope, double distance, Dtype) { return -slope * distance; }}),
      by({"K-A4", "", "the bias follows the query", "softmax cancels it: no position at all",
          "slope times the key's position"},
         kBias,
         {.distance = [](std::int64_t query, double) { return static_cast<double>(query); }}),
      model({"K-A5", "", "the other form of the bias",
             "the same attention under a causal mask, other raw values",
             "slope·(j − i) or slope·j, as the consumer expects"},
            kBias, [](const Call& call) { return right(other_form(call)); }),
      model({"K-A6", "", "no bias while decoding", "generation differs from a full pass",
             "count keys from the past length, not from the query's length"},
            kBias, none_while_decoding),
      by({"K-A7", "from head 0", "a shard reads the slopes of the first heads",
          "tensor-parallel ranks but the first are wrong", "add the rank's first head"},
         kBias, {.head = [](const Parameters&, std::int64_t local) { return local; }}),
      model({"K-A7", "as a whole", "a shard makes the slopes of so many heads",
             "all tensor-parallel ranks are wrong", "make the slopes of all heads, then slice"},
            kBias, shard_as_a_whole),
      by({"K-A8", "", "slope, distance and product in bf16 under wider types",
          "neighbours a thousand tokens away coincide", "multiply in f32"},
         kBias,
         {.product =
              [](double slope, double distance, Dtype dtype) {
                return is_16_bit(dtype)
                           ? slope * distance
                           : rounded_to(Dtype::bf16, rounded_to(Dtype::bf16, slope) *
                                                         rounded_to(Dtype::bf16, distance));
              }}),
      model({"K-A9", "", "the bias scaled with the scores", "distances count √d times less",
             "add the bias after the scale"},
            {"attention"}, scaled),
      by({"K-A11", "", "slopes in 16 bits read with an offset of floats",
          "heads past the power of two have no slope", "count the offset in elements"},
         kBoth,
         {.slope =
              [](const Parameters& p, std::int64_t h, double slope, Dtype dtype) {
                const auto n = static_cast<double>(p.integer("num_heads"));
                const bool is_extra = p.text("rule") == "press" &&
                                      static_cast<double>(h) >= std::exp2(std::floor(std::log2(n)));
                return is_16_bit(dtype) && is_extra ? 0 : slope;
              }}),
      model({"K-A12", "", "alibi_bias_max ignored", "slopes of another model", "read it"}, kBoth,
            [](const Call& call) {
              checked(call);
              return right(without_parameter(call, "bias_max"));
            }),
  };
}

}  // namespace posproof::bugs::alibi
