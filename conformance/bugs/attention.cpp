#include "reference/attention.hpp"
#include "conformance/bugs/core/attention_steps.hpp"

namespace posproof::bugs::attention {
namespace {

using Array = xt::xarray<double>;

const std::vector<std::string> kAttention{"attention"};

bool rotates(const Call& call) {
  return call.parameters.value("scheme", nlohmann::json::object()).value("name", "nope") == "rope";
}

Answering under_rope(const AttentionSteps& steps) {
  return [steps](const Call& call) {
    return rotates(call) ? attention_with(steps, call) : right(call);
  };
}

/// The second halves of queries come from keys, the first halves of keys from queries.
void cross_halves(const Parameters&, Inputs<double>& in) {
  const Array q = in.real("q"), k = in.real("k");
  if (q.shape() != k.shape()) return;
  Array crossed_q = q, crossed_k = k;
  const std::size_t width = q.shape(2);
  for (std::size_t i = 0; i < q.size(); ++i)
    if (i % width < width / 2)
      crossed_k.data()[i] = q.data()[i];
    else
      crossed_q.data()[i] = k.data()[i];
  in.set("q", crossed_q);
  in.set("k", crossed_k);
}

void rotate_values(const Call& call, const AttentionSteps& steps, Array& v) {
  v = rotated(steps, call, v,
              reference::attention::positions(call.inputs, "k_positions", v.shape(1)));
}

/// Positions are counted over the pads that the mask hides.
Outputs<double> counts_the_pads(const Call& call) {
  if (!call.inputs.has("key_mask")) return right(call);
  Call counting = call;
  if (call.inputs.has("q_positions"))
    counting.inputs.set("q_positions", counted(call.inputs.real("q").shape(1)));
  if (call.inputs.has("k_positions"))
    counting.inputs.set("k_positions", counted(call.inputs.real("k").shape(1)));
  return right(counting);
}

/// One query stands at the end of the keys that are left.
Outputs<double> counts_the_rows_left(const Call& call) {
  const std::size_t keys = call.inputs.real("k").shape(1);
  if (call.inputs.real("q").shape(1) != 1) return right(call);
  return right(with_positions(
      call, "q_positions", [keys](std::int64_t) { return static_cast<std::int64_t>(keys) - 1; }));
}

}  // namespace

std::vector<BugModel> models() {
  AttentionSteps crossed, turned;
  crossed.before = cross_halves;
  turned.value = rotate_values;
  return {
      model({"K-RL7", "", "crosses halves of queries and keys",
             "scores are wrong wherever queries and keys differ",
             "write each half to its own tensor"},
            kAttention, under_rope(crossed)),
      model({"K-RL8", "", "rotates values too", "outputs turn with the key's position",
             "rotate queries and keys alone"},
            kAttention, under_rope(turned)),
      model({"K-RI1", "", "counts positions over left padding",
             "prefill and decoding disagree, and absolute schemes are off by the padding",
             "make positions of the mask: its running sum less one"},
            kAttention, counts_the_pads),
      model({"K-RI3", "", "takes the number of keys left for the position",
             "after eviction new tokens stand too near", "keep a counter of tokens seen"},
            kAttention, counts_the_rows_left),
  };
}

}  // namespace posproof::bugs::attention
