#include <algorithm>

#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"

namespace posproof::properties::shaw {
namespace {

using nlohmann::json;

constexpr std::int64_t kFar = (std::int64_t{1} << 30) - 1;

struct Clipping {
  json parameters;
  std::int64_t max_distance;

  std::size_t rows() const { return static_cast<std::size_t>(2 * max_distance + 1); }
  /// The clipped offset that a query and a key position share a vector by.
  std::int64_t offset(std::int64_t query, std::int64_t key) const {
    const std::int64_t distance = parameters["sign"] == "k-q" ? key - query : query - key;
    return std::clamp(distance, -max_distance, max_distance);
  }
};

Clipping drawn_clipping() {
  const std::int64_t k = *one_of(std::vector<std::int64_t>{1, 2, 4, 16, 0, 60});
  return {{{"max_distance", k}, {"sign", *one_of(std::vector<std::string>{"k-q", "q-k"})}}, k};
}

/// `count` positions whose distances from `centre` lie on both sides of the clip, and on it.
std::vector<std::int64_t> drawn_around(std::int64_t centre, std::int64_t k, std::size_t count) {
  const auto edges =
      rc::gen::map(rc::gen::pair(one_of(std::vector<std::int64_t>{-k, k}), between(-1, 1)),
                   [](const std::pair<std::int64_t, std::int64_t>& drawn) {
                     return drawn.first + drawn.second;
                   });
  std::vector<std::int64_t> around = *rc::gen::container<std::vector<std::int64_t>>(
      count, rc::gen::weightedOneOf<std::int64_t>(
                 {{3, edges}, {3, between(-k - 2, k + 2)}, {1, positions(kFar)}}));
  for (std::int64_t& position : around) position += centre;
  return around;
}

Measured key_logits(Subject& subject, const Clipping& clipping, const Tensor& q,
                    const Tensor& table, const std::vector<std::int64_t>& queries,
                    const std::vector<std::int64_t>& keys) {
  return subject
      .measure("shaw.key_logits", clipping.parameters,
               {{"q", q},
                {"relative_keys", table},
                {"q_positions", integers(queries)},
                {"k_positions", integers(keys)}})
      .at("logits");
}

/// Row r holds r − k in lane 0: a dot product with e_0 reads the clipped offset. Small integers,
/// exact in every type.
Tensor offsets_table(const Clipping& clipping, Dtype dtype, std::size_t width) {
  Tensor table(dtype, {clipping.rows(), width});
  for (std::size_t r = 0; r < clipping.rows(); ++r)
    table.set(r * width, static_cast<double>(r) - static_cast<double>(clipping.max_distance));
  return table;
}

/// The same query vector at every position: equal clipped offsets, equal logits.
void only_the_clipped_offset_matters(Subject& subject) {
  const Clipping clipping = drawn_clipping();
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t width = *count_between(1, 6);
  const Tensor query = *tensors(dtype, {1, 1, width}),
               table = *tensors(dtype, {clipping.rows(), width});
  const std::vector<std::int64_t> queries = *position_lists(3, kFar);
  std::vector<std::int64_t> keys;
  for (std::int64_t position : queries)
    for (std::int64_t key : drawn_around(position, clipping.max_distance, 2)) keys.push_back(key);
  const Measured logits =
      key_logits(subject, clipping, reordered(query, {0, 0, 0}, 1), table, queries, keys);
  std::map<std::int64_t, std::pair<std::int64_t, Range>> seen;
  bool clipped = false, inside = false;
  for (std::size_t i = 0; i < queries.size(); ++i)
    for (std::size_t j = 0; j < keys.size(); ++j) {
      const std::int64_t offset = clipping.offset(queries[i], keys[j]);
      const auto [first, is_new] =
          seen.try_emplace(offset, keys[j] - queries[i], logits.range(0, i, j));
      require_meet(first->second.second, logits.range(0, i, j),
                   "logits at clipped offset " + std::to_string(offset));
      const bool differ = first->second.first != keys[j] - queries[i];
      clipped = clipped || (!is_new && differ && clipping.max_distance > 0);
      inside = inside || (!is_new && std::abs(offset) < clipping.max_distance);
    }
  RC_CLASSIFY(clipped, "distances that share an end");
  RC_CLASSIFY(inside, "one offset at two places");
}

void the_row_read_is_that_of_the_clipped_offset(Subject& subject) {
  const Clipping clipping = drawn_clipping();
  const Dtype dtype = subject.drawn_dtype();
  const std::int64_t query = *positions(kFar), k = clipping.max_distance;
  const std::vector<std::int64_t> keys = drawn_around(query, k, 3);
  const Measured logits = key_logits(subject, clipping, Tensor(dtype, {1, 1, 2}, {1, 0}),
                                     offsets_table(clipping, dtype, 2), {query}, keys);
  bool clipped = false, at_the_end = false;
  for (std::size_t j = 0; j < keys.size(); ++j) {
    RC_ASSERT(logits.got.value(j) == static_cast<double>(clipping.offset(query, keys[j])));
    clipped = clipped || (k > 0 && std::abs(keys[j] - query) > k);
    at_the_end = at_the_end || (k > 0 && std::abs(keys[j] - query) == k);
  }
  RC_CLASSIFY(clipped, "clipped");
  RC_CLASSIFY(at_the_end, "at the end");
}

/// Far to the left, the last offset inside it, and the same to the right are four rows.
void saturation_ends_are_distinct(Subject& subject) {
  const Clipping clipping = drawn_clipping();
  RC_PRE(clipping.max_distance > 0);
  const std::int64_t query = *positions(kFar), k = clipping.max_distance;
  const std::int64_t beyond = k + *between(0, 1000);
  const Dtype dtype = subject.drawn_dtype();
  const Measured logits = key_logits(
      subject, clipping, Tensor(dtype, {1, 1, 1}, {1}), offsets_table(clipping, dtype, 1), {query},
      {query - beyond, query - (k - 1), query + (k - 1), query + beyond});
  for (std::size_t j : {0, 2}) RC_ASSERT(logits.got.value(j) != logits.got.value(j + 1));
  RC_ASSERT(logits.got.value(0) != logits.got.value(3));
}

/// A weight of 1 on one key: its offset's row is the output, to the bit.
void value_term_of_one_key_is_the_row_of_its_offset(Subject& subject) {
  const Clipping clipping = drawn_clipping();
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t width = *count_between(1, 4), attended = *count_between(0, 2);
  const Tensor table = *tensors(dtype, {clipping.rows(), width});
  const std::int64_t query = *positions(kFar);
  const std::vector<std::int64_t> keys = drawn_around(query, clipping.max_distance, 3);
  Tensor weights(dtype, {1, 1, 3});
  weights.set(attended, 1);
  const Measured out = subject
                           .measure("shaw.value_term", clipping.parameters,
                                    {{"weights", weights},
                                     {"relative_values", table},
                                     {"q_positions", integers({query})},
                                     {"k_positions", integers(keys)}})
                           .at("out");
  const auto row =
      static_cast<std::size_t>(clipping.offset(query, keys[attended]) + clipping.max_distance);
  for (std::size_t lane = 0; lane < width; ++lane)
    RC_ASSERT(out.got.value(lane) == table.value(row * width + lane));
  RC_CLASSIFY(clipping.max_distance > 0 && std::abs(keys[attended] - query) > clipping.max_distance,
              "clipped");
}

/// The rows of (offset) logits, padded by one column, read on in rows of one column less: row i
/// then begins i columns later (Huang et al. 2018, section 3.4.1). Element [i, j] of the result is
/// where the flat order puts it.
std::size_t skewed(std::size_t i, std::size_t j, std::size_t length) {
  const std::size_t flat = i * (2 * length - 1) + (length - 1) + j;
  return flat / (2 * length) * (2 * length - 1) + flat % (2 * length);
}

/// Each query against all 2L − 1 offsets, skewed: what contiguous positions need, without looking
/// up a row for each pair.
void gather_form_equals_skew_form(Subject& subject) {
  const Clipping clipping = drawn_clipping();
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t length = *count_between(1, 6), width = *count_between(1, 4);
  const Tensor q = *tensors(dtype, {2, length, width}),
               table = *tensors(dtype, {clipping.rows(), width});
  const std::int64_t start = *positions(kFar);
  std::vector<std::int64_t> at, offsets;
  for (std::size_t i = 0; i < length; ++i) at.push_back(start + static_cast<std::int64_t>(i));
  for (std::size_t c = 0; c < 2 * length - 1; ++c)
    offsets.push_back(static_cast<std::int64_t>(c) - static_cast<std::int64_t>(length - 1));
  const Measured gathered = key_logits(subject, clipping, q, table, at, at);
  const Measured all =
      key_logits(subject, clipping, q, table, std::vector<std::int64_t>(length, 0), offsets);
  for (std::size_t h : {0, 1})
    for (std::size_t i = 0; i < length; ++i)
      for (std::size_t j = 0; j < length; ++j)
        require_meet(gathered.range(h, i, j),
                     all.range.data()[h * length * (2 * length - 1) + skewed(i, j, length)],
                     "logits gathered and skewed, " + to_string(Shape{h, i, j}));
  const auto farthest = static_cast<std::int64_t>(length) - 1;
  RC_CLASSIFY(clipping.max_distance > 0 && farthest > clipping.max_distance, "clipped");
  RC_CLASSIFY(farthest > 1 && farthest <= clipping.max_distance, "inside");
}

/// One visible key weighs 1: the output is its value and its offset's row.
void attention_adds_the_value_term(Subject& subject) {
  const Clipping clipping = drawn_clipping();
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t width = *count_between(1, 4);
  Tensors inputs;
  for (const char* name : {"q", "k", "v"}) inputs.emplace(name, *tensors(dtype, {2, 1, width}, 1));
  for (const char* name : {"relative_keys", "relative_values"})
    inputs.emplace(name, *tensors(dtype, {clipping.rows(), width}, 1));
  const std::int64_t query = *positions(kFar),
                     key = drawn_around(query, clipping.max_distance, 1)[0];
  inputs.emplace("q_positions", integers({query}));
  inputs.emplace("k_positions", integers({key}));
  const json scheme{{"name", "shaw"}, {"parameters", clipping.parameters}};
  const Measured out = subject.measure("attention", {{"scheme", scheme}}, inputs).at("out");
  const std::int64_t offset = clipping.offset(query, key);
  const auto row = static_cast<std::size_t>(offset + clipping.max_distance);
  bool tells = false;
  for (std::size_t i = 0; i < 2 * width; ++i) {
    const double added = inputs.at("relative_values").value(row * width + i % width);
    require_meet(out.range.data()[i], Range(inputs.at("v").value(i)) + Range(added),
                 "out, and the value and the row of offset " + std::to_string(offset));
    tells = tells || std::fabs(added) > 4 * radius(out.range.data()[i]);
  }
  RC_CLASSIFY(tells && offset < 0, "before");
  RC_CLASSIFY(tells && offset > 0, "after");
}

/// Both terms vanish with their tables, and nothing else does.
void zero_tables_give_plain_attention(Subject& subject) {
  const Clipping clipping = drawn_clipping();
  const Dtype dtype = subject.drawn_dtype();
  const std::size_t width = *count_between(1, 4);
  Tensors inputs;
  for (const char* name : {"q", "k", "v"}) inputs.emplace(name, *tensors(dtype, {2, 3, width}, 1));
  const Measured plain = subject.measure("attention", {{"causal", true}}, inputs).at("out");
  inputs.emplace("relative_keys", Tensor(dtype, {clipping.rows(), width}));
  inputs.emplace("relative_values", Tensor(dtype, {clipping.rows(), width}));
  const json scheme{{"name", "shaw"}, {"parameters", clipping.parameters}};
  const Measured with_zeros =
      subject.measure("attention", {{"causal", true}, {"scheme", scheme}}, inputs).at("out");
  for (std::size_t i = 0; i < plain.got.size(); ++i)
    require_meet(plain.range.data()[i], with_zeros.range.data()[i], "out " + std::to_string(i));
}

}  // namespace

std::vector<Law> laws() {
  const std::vector<std::string> logits{"shaw.key_logits"};
  return {
      {"shaw/only_the_clipped_offset_matters",
       logits,
       only_the_clipped_offset_matters,
       {"distances that share an end", "one offset at two places"}},
      {"shaw/the_row_read_is_that_of_the_clipped_offset",
       logits,
       the_row_read_is_that_of_the_clipped_offset,
       {"clipped", "at the end"}},
      {"shaw/saturation_ends_are_distinct", logits, saturation_ends_are_distinct},
      {"shaw/value_term_of_one_key_is_the_row_of_its_offset",
       {"shaw.value_term"},
       value_term_of_one_key_is_the_row_of_its_offset,
       {"clipped"}},
      {"shaw/gather_form_equals_skew_form",
       logits,
       gather_form_equals_skew_form,
       {"clipped", "inside"}},
      {"shaw/attention_adds_the_value_term",
       {"attention"},
       attention_adds_the_value_term,
       {"before", "after"}},
      {"shaw/zero_tables_give_plain_attention", {"attention"}, zero_tables_give_plain_attention}};
}

}  // namespace posproof::properties::shaw
