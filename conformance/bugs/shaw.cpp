#include "reference/shaw.hpp"

#include "conformance/bugs/core/attention_steps.hpp"

namespace posproof::bugs::shaw {
namespace {

namespace truth = reference::shaw;

const std::vector<std::string> kBoth{"shaw.key_logits", "shaw.value_term"};
const std::vector<std::string> kLogits{"shaw.key_logits"};

/// The row that a clipping of one's own reads for the signed distance.
using Row = std::int64_t (*)(std::int64_t distance, std::int64_t k);

Answering reading(Row row) {
  return [row](const Call& call) {
    const Parameters p = checked(call);
    const std::int64_t k = p.integer("max_distance"), rows = 2 * k + 1;
    const bool of_keys = call.operation == "shaw.key_logits";
    const auto& table = call.inputs.real(of_keys ? "relative_keys" : "relative_values");
    const auto& other = call.inputs.real(of_keys ? "q" : "weights");
    const auto& q_at = call.inputs.integers("q_positions");
    const auto& k_at = call.inputs.integers("k_positions");
    const std::size_t heads = other.shape(0), width = table.shape(1);
    Output<double> out({heads, q_at.size(), of_keys ? k_at.size() : width});
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < q_at.size(); ++i)
        for (std::size_t j = 0; j < k_at.size(); ++j) {
          const std::int64_t distance =
              p.text("sign") == "k-q" ? k_at(j) - q_at(i) : q_at(i) - k_at(j);
          const std::int64_t found = row(distance, k);
          const auto r = static_cast<std::size_t>((found % rows + rows) % rows);
          for (std::size_t lane = 0; lane < width; ++lane)
            if (of_keys)
              out.values(h, i, j) += other(h, i, lane) * table(r, lane);
            else
              out.values(h, i, lane) += other(h, i, j) * table(r, lane);
        }
    return Outputs<double>{{of_keys ? "logits" : "out", out}};
  };
}

Outputs<double> queries_from_0(const Call& call) {
  std::int64_t next = 0;
  return right(with_positions(call, "q_positions", [&next](std::int64_t) { return next++; }));
}

/// Keys stand where queries do, as in a square.
Outputs<double> as_in_a_square(const Call& call) {
  const auto& q_at = call.inputs.integers("q_positions");
  if (q_at.size() == 0 || q_at.size() == call.inputs.integers("k_positions").size())
    return right(call);
  std::int64_t next = q_at(0);
  return right(with_positions(call, "k_positions", [&next](std::int64_t) { return next++; }));
}

Outputs<double> other_sign(const Call& call) {
  return right(with_parameter(call, "sign", checked(call).text("sign") == "k-q" ? "q-k" : "k-q"));
}

bool is_a_contiguous_square(const Call& call) {
  const auto& q_at = call.inputs.integers("q_positions");
  const auto& k_at = call.inputs.integers("k_positions");
  if (q_at.size() != k_at.size() || q_at.size() < 2) return false;
  for (std::size_t i = 0; i < q_at.size(); ++i)
    if (k_at(i) != q_at(i) || (i > 0 && q_at(i) != q_at(i - 1) + 1)) return false;
  return true;
}

/// Logit of query i with the c-th of the offsets −(L−1) … 0, of which a causal skew is made.
double before_the_skew(const Call& call, std::size_t h, std::size_t i, std::size_t c) {
  const Parameters p = checked(call);
  const auto& q = call.inputs.real("q");
  const auto& table = call.inputs.real("relative_keys");
  const std::size_t row =
      truth::row_of(p, static_cast<std::int64_t>(q.shape(1)) - 1, static_cast<std::int64_t>(c));
  double sum = 0;
  for (std::size_t lane = 0; lane < q.shape(2); ++lane) sum += q(h, i, lane) * table(row, lane);
  return sum;
}

/// rel_shift of L rows and L columns that pads a column in front: entry n of the padded rows, read
/// from `first` on in rows of L.
Answering skewed(std::size_t rows_dropped) {
  return [rows_dropped](const Call& call) {
    Outputs<double> outputs = right(call);
    if (!is_a_contiguous_square(call)) return outputs;
    xt::xarray<double>& logits = outputs.at("logits").values;
    const std::size_t length = logits.shape(1);
    for (std::size_t h = 0; h < logits.shape(0); ++h)
      for (std::size_t i = 0; i < length; ++i)
        for (std::size_t j = 0; j < length; ++j) {
          const std::size_t n = (i + rows_dropped) * length + j, column = n % (length + 1);
          logits(h, i, j) =
              column == 0 ? 0 : before_the_skew(call, h, n / (length + 1), column - 1);
        }
    return outputs;
  };
}

Outputs<double> no_value_term(const Call& call) {
  Outputs<double> outputs = right(call);
  outputs.at("out").values.fill(0);
  return outputs;
}

std::int64_t unclipped(std::int64_t distance, std::int64_t k) { return distance + k; }
std::int64_t unsigned_distance(std::int64_t distance, std::int64_t k) {
  return std::min(std::abs(distance), k) + k;
}
std::int64_t one_short(std::int64_t distance, std::int64_t k) {
  return std::clamp(distance, -k, std::max(-k, k - 1)) + k;
}

}  // namespace

std::vector<BugModel> models() {
  return {
      model({"K-S1", "", "queries count from 0 while decoding",
             "generation differs from a full pass", "add the past length to the query's position"},
            kBoth, queries_from_0),
      model({"K-S2", "", "distances not clipped",
             "rows from the other end of the table, or a crash", "clip to −k … k before indexing"},
            kBoth, reading(unclipped)),
      model({"K-S3", "", "keys taken to stand where queries do", "wrong where lengths differ",
             "make the offsets of all queries and all keys"},
            kBoth, as_in_a_square),
      model({"K-S4", "", "distances of the other sign", "before and after are exchanged",
             "key − query in Shaw et al., query − key in BERT"},
            kBoth, other_sign),
      model({"K-S5", "", "the shifted scores keep the wrong slice", "every score one row late",
             "drop the first row after the reshape, not the last"},
            kLogits, skewed(0)),
      model({"K-S6", "", "a causal skew used without a mask",
             "later keys carry scores of other queries", "mask the upper triangle, or gather"},
            kLogits, skewed(1)),
      model({"K-S8", "", "the sign of the distance lost", "before and after coincide",
             "index with the signed distance"},
            kBoth, reading(unsigned_distance)),
      model({"K-S9", "", "clipped one short", "the last two offsets coincide",
             "2k + 1 rows, clipped to −k … k"},
            kBoth, reading(one_short)),
      model({"K-S10", "", "the value term left out", "outputs miss the vectors of the offsets",
             "add Σ w·a^V where relative_values are given"},
            {"shaw.value_term"}, no_value_term),
  };
}

}  // namespace posproof::bugs::shaw
