#include "properties/attention.hpp"

#include <algorithm>
#include <functional>

namespace posproof::properties::attention {
namespace {

bool moves(const Order& order) { return !std::is_sorted(order.begin(), order.end()); }

void permuting_keys_and_values_together_changes_nothing(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t queries = *count_between(1, 3), keys = *count_between(2, 5);
  const Tensors inputs = drawn_inputs(dtype, queries, keys);
  const Order order = *permutations(keys);
  Tensors permuted = inputs;
  for (const char* name : {"k", "v"}) permuted[name] = reordered(inputs.at(name), order, 1);
  require_rows(attended(subject, nope(dtype), false, inputs), from_to(0, queries),
               attended(subject, nope(dtype), false, permuted));
  RC_CLASSIFY(moves(order), "permuted");
}

void permuting_queries_permutes_the_output(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t queries = *count_between(2, 4);
  const Tensors inputs = drawn_inputs(dtype, queries, *count_between(1, 4));
  const Order order = *permutations(queries);
  Tensors permuted = inputs;
  permuted["q"] = reordered(inputs.at("q"), order, 1);
  require_rows(attended(subject, nope(dtype), false, inputs), order,
               attended(subject, nope(dtype), false, permuted));
  RC_CLASSIFY(moves(order), "permuted");
}

/// "the dog bit the man" is "the man bit the dog".
void without_positions_a_sentence_is_a_set(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t words = *count_between(2, 5);
  const Tensor sentence = *tensors(dtype, {kHeads, words, kWidth}, 1);
  const Order order = *permutations(words);
  require_rows(
      attended(subject, nope(dtype), false, self_attention(sentence)), order,
      attended(subject, nope(dtype), false, self_attention(reordered(sentence, order, 1))));
  RC_CLASSIFY(moves(order), "permuted");
}

/// A 3-cycle: a bias that is symmetric in the distance commutes with the exchange of two tokens,
/// and with any reversal.
const Order kCycle{2, 0, 1};

using Present = std::function<Tensor(const Tensor& tokens)>;

Tensor as_they_are(const Tensor& tokens) { return tokens; }

/// Some output of some token must change, unless no true change exceeds the bounds twice, one for
/// the answer and one for what it says of the truth: the type is too coarse to show it. `given` is
/// what attention gets for tokens in this order, `right` what it should get.
void require_broken(Subject& subject, const Encoding& encoding, bool causal, const Tensor& tokens,
                    const Present& given, const Present& right) {
  const Tensor cycled = reordered(tokens, kCycle, 1);
  const Measured before = attended(subject, encoding, causal, self_attention(given(tokens)));
  const Measured after = attended(subject, encoding, causal, self_attention(given(cycled)));
  const auto true_before = estimated(encoding, causal, self_attention(right(tokens))),
             true_after = estimated(encoding, causal, self_attention(right(cycled)));
  bool breaks = false, must_break = false;
  for (std::size_t h = 0; h < kHeads; ++h)
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t lane = 0; lane < kWidth; ++lane) {
        const Range &a = before.range(h, kCycle[i], lane), &b = after.range(h, i, lane);
        breaks = breaks || !meet(a, b);
        must_break =
            must_break || std::fabs(true_before(h, kCycle[i], lane) - true_after(h, i, lane)) >
                              2 * (radius(a) + radius(b)) + 1e-9;
      }
  if (must_break && !breaks)
    RC_FAIL("a 3-cycle of three distinct tokens permutes the outputs and does nothing else");
  RC_CLASSIFY(must_break, "shows");
}

template <Encoding (*encoding)(Dtype)>
void breaks_the_symmetry(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  require_broken(subject, encoding(dtype), false, drawn_tokens(dtype), as_they_are, as_they_are);
}

void a_causal_mask_breaks_the_symmetry(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  require_broken(subject, nope(dtype), true, drawn_tokens(dtype), as_they_are, as_they_are);
}

/// Row t of an embedding is added to the token at t.
Present with_rows(const std::function<double(std::size_t)>& row_lane) {
  return [=](Tensor tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens.set(i, tokens.value(i) + row_lane(i % (3 * kWidth)));
    return tokens;
  };
}

void require_rows_break(Subject& subject, Dtype dtype, const std::string& operation,
                        const json& parameters, const Tensors& inputs) {
  const Tensor got = subject.measure(operation, parameters, inputs).begin()->second.got;
  const Operation& embedding = find_operation(operation);
  const auto right = embedding.formula
                         .estimate(checked_parameters(embedding, parameters),
                                   Inputs<double>(inputs), Recipe::exact)
                         .begin()
                         ->second.values;
  require_broken(subject, nope(dtype), false, drawn_tokens(dtype),
                 with_rows([&](std::size_t i) { return got.value(i); }),
                 with_rows([&](std::size_t i) { return right.data()[i]; }));
}

void sinusoidal_breaks_the_symmetry(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  require_rows_break(subject, dtype, "sinusoidal.table",
                     {{"d_model", kWidth}, {"dtype", name(dtype)}},
                     {{"positions", integers({0, 1, 2})}});
}

void learned_breaks_the_symmetry(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  require_rows_break(
      subject, dtype, "learned.embed", json::object(),
      {{"table", separated_rows(dtype, 4, kWidth)}, {"positions", integers({0, 1, 2})}});
}

/// Positions are what counts, not the place in memory: every scheme, with and without a mask.
void tokens_with_their_positions_may_stand_in_any_order(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t words = *count_between(2, 4);
  const Encoding encoding = drawn_encoding(dtype);
  const bool causal = *rc::gen::arbitrary<bool>();
  const Order order = *permutations(words);
  std::vector<std::int64_t> at{std::abs(*positions(100000))};
  while (at.size() < words) at.push_back(at.back() + *between(1, 40));

  Tensors inputs = drawn_inputs(dtype, words, words), permuted;
  for (const char* name : {"q_positions", "k_positions"}) inputs.emplace(name, integers(at));
  for (const auto& [name, tensor] : inputs)
    permuted.emplace(name, reordered(tensor, order, tensor.rank() == 1 ? 0 : 1));
  require_rows(attended(subject, encoding, causal, inputs), order,
               attended(subject, encoding, causal, permuted));
  RC_CLASSIFY(moves(order) && causal, "permuted under a mask");
  RC_CLASSIFY(moves(order) && name_of(encoding) != "nope", "permuted with a scheme");
}

/// What a symmetric bias cannot tell apart.
void symmetric_alibi_commutes_with_reversal(Subject& subject) {
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t words = *count_between(2, 5);
  const Tensor sentence = *tensors(dtype, {kHeads, words, kWidth}, 1);
  Order reversal = from_to(0, words);
  std::reverse(reversal.begin(), reversal.end());
  require_rows(
      attended(subject, alibi(dtype), false, self_attention(sentence)), reversal,
      attended(subject, alibi(dtype), false, self_attention(reordered(sentence, reversal, 1))));
}

}  // namespace

std::vector<Law> laws() {
  const std::vector<std::string> attention{"attention"}, permuted{"permuted"};
  std::vector<Law> all{
      {"attention/permuting_keys_and_values_together_changes_nothing", attention,
       permuting_keys_and_values_together_changes_nothing, permuted},
      {"attention/permuting_queries_permutes_the_output", attention,
       permuting_queries_permutes_the_output, permuted},
      {"attention/without_positions_a_sentence_is_a_set", attention,
       without_positions_a_sentence_is_a_set, permuted},
      {"attention/a_causal_mask_breaks_the_symmetry",
       attention,
       a_causal_mask_breaks_the_symmetry,
       {"shows"}},
      {"attention/rope_breaks_the_symmetry", attention, breaks_the_symmetry<rope>, {"shows"}},
      {"attention/alibi_breaks_the_symmetry", attention, breaks_the_symmetry<alibi>, {"shows"}},
      {"attention/shaw_breaks_the_symmetry", attention, breaks_the_symmetry<shaw>, {"shows"}},
      {"attention/t5_breaks_the_symmetry", attention, breaks_the_symmetry<t5>, {"shows"}},
      {"attention/sinusoidal_breaks_the_symmetry",
       {"attention", "sinusoidal.table"},
       sinusoidal_breaks_the_symmetry,
       {"shows"}},
      {"attention/learned_breaks_the_symmetry",
       {"attention", "learned.embed"},
       learned_breaks_the_symmetry,
       {"shows"}},
      {"attention/tokens_with_their_positions_may_stand_in_any_order",
       attention,
       tokens_with_their_positions_may_stand_in_any_order,
       {"permuted under a mask", "permuted with a scheme"}},
      {"attention/symmetric_alibi_commutes_with_reversal", attention,
       symmetric_alibi_commutes_with_reversal}};
  for (const auto& more : {laws_of_layers(), laws_of_schemes(), laws_of_state()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace posproof::properties::attention
