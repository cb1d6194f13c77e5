#include <algorithm>

#include "properties/attention.hpp"

namespace posproof::properties::attention {
namespace {

/// The last token sees all others, as a set.
void in_one_causal_layer_the_last_token_ignores_the_order_before_it(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t words = *count_between(3, 6), last = words - 1;
  const Tensor sentence = *tensors(dtype, {kHeads, words, kWidth}, 1);
  Order order = *permutations(last);
  order.push_back(last);
  const Measured before = attended(subject, nope(dtype), true, self_attention(sentence)),
                 after = attended(subject, nope(dtype), true,
                                  self_attention(reordered(sentence, order, 1)));
  for (std::size_t h = 0; h < kHeads; ++h)
    for (std::size_t lane = 0; lane < kWidth; ++lane)
      require_meet(before.range(h, last, lane), after.range(h, last, lane),
                   "out of the last token");
  RC_CLASSIFY(!std::is_sorted(order.begin(), order.end()), "permuted");
}

/// Tokens through two layers: the answers, what they should be, and how far the second layer's
/// inputs may put its true output from that.
struct TwoLayers {
  Measured out;
  xt::xarray<double> right;
  double spread;
};

/// Inputs that are off by ε and below M move scores by σ = √D·(2Mε + ε²), weights by factors within
/// e^(±2σ), and so the output by ε + M·(e^(2σ) − 1).
TwoLayers through_two_layers(Subject& subject, const Tensor& tokens) {
  const Encoding encoding = nope(tokens.dtype());
  const Measured first = attended(subject, encoding, true, self_attention(tokens));
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < first.got.size(); ++i) {
    largest = std::max(largest, std::fabs(first.got.value(i)) + first.limit[i]);
    error = std::max(error, first.limit[i]);
  }
  const double moved = std::sqrt(static_cast<double>(kWidth)) * (2 * largest + error) * error;
  const auto hidden = estimated(encoding, true, self_attention(tokens));
  return {attended(subject, encoding, true, self_attention(first.got)),
          estimated(encoding, true,
                    self_attention(Tensor(Dtype::f64, tokens.shape(),
                                          std::vector<double>(hidden.begin(), hidden.end())))),
          error + largest * std::expm1(2 * moved)};
}

/// After one layer the tokens before the last have seen different sets; so the second layer of a
/// decoder without encodings knows their order.
void two_causal_layers_see_the_order_before_the_last_token(Subject& subject) {
  const Tensor tokens = drawn_tokens(subject.drawn_dtype());
  const TwoLayers before = through_two_layers(subject, tokens),
                  after = through_two_layers(subject, reordered(tokens, {1, 0, 2}, 1));
  bool differ = false, must_differ = false;
  for (std::size_t h = 0; h < kHeads; ++h)
    for (std::size_t lane = 0; lane < kWidth; ++lane) {
      const Range &a = before.out.range(h, 2, lane), &b = after.out.range(h, 2, lane);
      differ = differ || !meet(a, b);
      must_differ =
          must_differ || std::fabs(before.right(h, 2, lane) - after.right(h, 2, lane)) >
                             2 * (radius(a) + radius(b)) + before.spread + after.spread + 1e-9;
    }
  if (must_differ && !differ)
    RC_FAIL(
        "the last token's output after two layers ignores that the two before it changed places");
  RC_CLASSIFY(must_differ, "shows");
}

}  // namespace

std::vector<Law> laws_of_layers() {
  return {{"attention/in_one_causal_layer_the_last_token_ignores_the_order_before_it",
           {"attention"},
           in_one_causal_layer_the_last_token_ignores_the_order_before_it,
           {"permuted"}},
          {"attention/two_causal_layers_see_the_order_before_the_last_token",
           {"attention"},
           two_causal_layers_see_the_order_before_the_last_token,
           {"shows"}}};
}

}  // namespace posproof::properties::attention
