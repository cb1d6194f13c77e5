#include "properties/attention.hpp"

namespace posproof::properties::attention {
namespace {

/// Entries first … last − 1 of an axis.
Tensor part(const Tensor& tensor, std::size_t first, std::size_t last, std::size_t axis) {
  return reordered(tensor, from_to(first, last), axis);
}

/// Tokens at growing positions, as a decoder meets them.
struct Sequence {
  Encoding encoding;
  Tensors inputs;

  std::size_t length() const { return inputs.at("k_positions").size(); }
  /// Queries and keys of tokens first … last − 1 only.
  Tensors tokens(std::size_t first_query, std::size_t first_key, std::size_t last) const {
    Tensors some;
    for (const auto& [name, tensor] : inputs)
      some.emplace(name, part(tensor, name.front() == 'q' ? first_query : first_key, last,
                              tensor.rank() == 1 ? 0 : 1));
    return some;
  }
};

std::vector<std::int64_t> growing_positions(std::size_t count) {
  std::vector<std::int64_t> at{std::abs(*positions(100000))};
  while (at.size() < count) at.push_back(at.back() + *one_of(std::vector<std::int64_t>{1, 2, 40}));
  return at;
}

Sequence drawn_sequence(Subject& subject, std::size_t shortest, std::size_t longest) {
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t length = *count_between(shortest, longest);
  Sequence sequence{drawn_encoding(dtype), drawn_inputs(dtype, length, length)};
  const Tensor at = integers(growing_positions(length));
  for (const char* name : {"q_positions", "k_positions"}) sequence.inputs.emplace(name, at);
  return sequence;
}

/// Tokens first … last − 1 ask, against the keys so far.
Measured step(Subject& subject, const Sequence& sequence, std::size_t first, std::size_t last,
              bool causal) {
  return attended(subject, sequence.encoding, causal, sequence.tokens(first, 0, last));
}

/// Whatever is in the cache is visible: the mask may be left out.
void decoding_with_a_cache_equals_the_full_causal_pass(Subject& subject) {
  const Sequence sequence = drawn_sequence(subject, 2, 5);
  const bool causal = *rc::gen::arbitrary<bool>();
  const Measured full = attended(subject, sequence.encoding, true, sequence.inputs);
  for (std::size_t t = 0; t < sequence.length(); ++t)
    require_rows(full, {t}, step(subject, sequence, t, t + 1, causal));
  RC_TAG(name_of(sequence.encoding));
}

void a_prompt_in_two_chunks_equals_the_whole(Subject& subject) {
  const Sequence sequence = drawn_sequence(subject, 2, 6);
  const std::size_t length = sequence.length(), cut = *count_between(1, length - 1);
  const Measured whole = attended(subject, sequence.encoding, true, sequence.inputs);
  require_rows(whole, from_to(0, cut), step(subject, sequence, 0, cut, true));
  require_rows(whole, from_to(cut, length), step(subject, sequence, cut, length, true));
  RC_TAG(name_of(sequence.encoding));
}

/// A mask of `hidden` zeros before the ones.
Tensor mask(std::size_t hidden, std::size_t length) {
  std::vector<std::int64_t> visible(length, 1);
  std::fill_n(visible.begin(), hidden, 0);
  return integers(visible);
}

/// Tokens keep their positions; pads hold junk. Those that ask get some answer: they see the last
/// token.
void left_padding_behind_a_mask_changes_nothing(Subject& subject) {
  Sequence padded = drawn_sequence(subject, 2, 6);
  const std::size_t length = padded.length(), pads = *count_between(1, length - 1);
  const Sequence alone{padded.encoding, padded.tokens(pads, pads, length)};
  Tensor &q_at = padded.inputs.at("q_positions"), &k_at = padded.inputs.at("k_positions");
  for (std::size_t pad = 0; pad < pads; ++pad) {
    q_at.set_integer(pad, q_at.integer(length - 1));
    k_at.set_integer(pad, *positions(100000));
  }
  padded.inputs.emplace("key_mask", mask(pads, length));
  const bool causal = *rc::gen::arbitrary<bool>();
  const Measured with = attended(subject, padded.encoding, causal, padded.inputs),
                 without = attended(subject, alone.encoding, causal, alone.inputs);
  require_rows(with, from_to(pads, length), without);
  RC_TAG(name_of(padded.encoding));
}

/// The cache has lost its first keys; the others keep their positions.
void evicted_keys_are_as_good_as_masked(Subject& subject) {
  const Sequence sequence = drawn_sequence(subject, 2, 6);
  const std::size_t length = sequence.length(), evicted = *count_between(1, length - 1);
  Tensors masked = sequence.tokens(evicted, 0, length);
  masked.emplace("key_mask", mask(evicted, length));
  const bool causal = *rc::gen::arbitrary<bool>();
  require_rows(
      attended(subject, sequence.encoding, causal, masked), from_to(0, length - evicted),
      attended(subject, sequence.encoding, causal, sequence.tokens(evicted, evicted, length)));
  RC_TAG(name_of(sequence.encoding));
}

/// What one rank of tensor parallelism holds of the scheme.
Encoding of_head(Encoding encoding, std::size_t head) {
  if (name_of(encoding) == "alibi") {
    encoding.scheme["parameters"]["head_offset"] = head;
    encoding.scheme["parameters"]["local_heads"] = 1;
  }
  if (name_of(encoding) == "t5") {
    Tensor& table = encoding.tensors.at("table");
    table = part(table, head, head + 1, 1);
  }
  return encoding;
}

void heads_in_shards_equal_the_whole(Subject& subject) {
  const Sequence sequence = drawn_sequence(subject, 1, 4);
  const bool causal = *rc::gen::arbitrary<bool>();
  const Measured whole = attended(subject, sequence.encoding, causal, sequence.inputs);
  for (std::size_t h = 0; h < kHeads; ++h) {
    Tensors inputs = sequence.inputs;
    for (const char* name : {"q", "k", "v"}) inputs[name] = part(inputs.at(name), h, h + 1, 0);
    const Measured shard = attended(subject, of_head(sequence.encoding, h), causal, inputs);
    for (std::size_t i = 0; i < sequence.length(); ++i)
      for (std::size_t lane = 0; lane < kWidth; ++lane)
        require_meet(whole.range(h, i, lane), shard.range(0, i, lane),
                     "head " + std::to_string(h) + " of the whole and alone");
  }
  RC_TAG(name_of(sequence.encoding));
}

}  // namespace

std::vector<Law> laws_of_state() {
  const std::vector<std::string> attention{"attention"};
  return {{"attention/decoding_with_a_cache_equals_the_full_causal_pass", attention,
           decoding_with_a_cache_equals_the_full_causal_pass, kEveryScheme},
          {"attention/a_prompt_in_two_chunks_equals_the_whole", attention,
           a_prompt_in_two_chunks_equals_the_whole, kEveryScheme},
          {"attention/left_padding_behind_a_mask_changes_nothing", attention,
           left_padding_behind_a_mask_changes_nothing, kEveryScheme},
          {"attention/evicted_keys_are_as_good_as_masked", attention,
           evicted_keys_are_as_good_as_masked, kEveryScheme},
          {"attention/heads_in_shards_equal_the_whole", attention, heads_in_shards_equal_the_whole,
           kEveryScheme}};
}

}  // namespace posproof::properties::attention
