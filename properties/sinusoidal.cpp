#include "reference/sinusoidal.hpp"

#include <Eigen/Dense>

#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"
#include "reference/core/registry.hpp"

namespace posproof::properties::sinusoidal {
namespace {

using nlohmann::json;
using Pair = Eigen::Matrix<Range, 2, 1>;

/// Far enough for every context, near enough that p + k stays below 2^31.
constexpr std::int64_t kFar = std::int64_t{1} << 29;

struct Encoding {
  json parameters;
  std::size_t width;
  double scale;

  std::size_t pairs() const { return width / 2; }
};

Encoding drawn_encoding(Subject& subject) {
  const std::size_t width = *count_between(2, 24);
  const double scale = *one_of(std::vector<double>{1, 1, 0.5, 3});
  json parameters{
      {"d_model", width},
      {"base", *one_of(std::vector<double>{10000, 2, 100, 500000})},
      {"scale", scale},
      {"layout", *one_of(std::vector<std::string>{"interleaved", "concat", "concat_cos_first"})},
      {"dtype", name(subject.drawn_dtype())}};
  if (width >= 4)
    parameters["denominator"] = *one_of(std::vector<std::string>{"half", "half_minus_one"});
  if (width % 2 != 0) parameters["odd"] = "zero_pad";
  return {parameters, width, scale};
}

/// Rows of the table for these positions.
class Rows {
 public:
  Rows(Subject& subject, const Encoding& encoding, const std::vector<std::int64_t>& positions)
      : encoding_(encoding),
        table_(subject
                   .measure("sinusoidal.table", encoding.parameters,
                            {{"positions", integers(positions)}})
                   .at("table")) {}

  const Measured& table() const { return table_; }

  /// (sin, cos) of pair i, as section 3.5 has them.
  Pair pair(std::size_t row, std::size_t i) const {
    const std::string layout = encoding_.parameters["layout"];
    const std::size_t pairs = encoding_.pairs();
    std::size_t sin = 2 * i, cos = 2 * i + 1;
    if (layout == "concat") sin = i, cos = i + pairs;
    if (layout == "concat_cos_first") sin = i + pairs, cos = i;
    return {table_.range(row, sin), table_.range(row, cos)};
  }

  Range dot(std::size_t a, std::size_t b) const {
    Range sum(0);
    for (std::size_t lane = 0; lane < encoding_.width; ++lane)
      sum += table_.range(a, lane) * table_.range(b, lane);
    return sum;
  }

 private:
  Encoding encoding_;
  Measured table_;
};

std::string of_pair(std::size_t i) { return "pair " + std::to_string(i); }

/// PE(p+k) = [[cos kω, sin kω], [−sin kω, cos kω]]·PE(p) for every pair.
void a_step_rotates_every_pair(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const std::int64_t p = *positions(kFar), k = *positions(kFar);
  const Rows rows(subject, encoding, {p, p + k});
  const Parameters parameters =
      checked_parameters(find_operation("sinusoidal.table"), encoding.parameters);
  bool tells = false;
  for (std::size_t i = 0; i < encoding.pairs(); ++i) {
    const Range omega = reference::sinusoidal::frequency<Range>(parameters, i);
    const SinCos<Range> step = sin_cos(Range(Range(static_cast<double>(k)) * omega));
    Eigen::Matrix<Range, 2, 2> turn;
    turn << step.cos, step.sin, Range(-step.sin), step.cos;
    const Pair turned = turn * rows.pair(0, i), expected = rows.pair(1, i);
    for (int lane : {0, 1}) require_meet(turned(lane), expected(lane), of_pair(i));
    tells = tells || (k != 0 && radius(turned(0)) < encoding.scale / 64);
  }
  RC_CLASSIFY(tells, "tells");
  RC_CLASSIFY(encoding.pairs() > 1 && tells, "several pairs");
}

void every_pair_lies_on_the_unit_circle(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const Rows rows(subject, encoding, *position_lists(3, kFar));
  bool tells = false;
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t i = 0; i < encoding.pairs(); ++i) {
      const Pair pair = rows.pair(row, i);
      const Range norm = pair.dot(pair);
      require_meet(norm, Range(encoding.scale * encoding.scale), of_pair(i));
      tells = tells || radius(norm) < encoding.scale * encoding.scale / 64;
    }
  RC_CLASSIFY(tells, "tells");
}

void the_dot_product_of_two_rows_depends_on_their_distance_only(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const std::int64_t m = *positions(kFar), n = *positions(kFar), shift = *positions(kFar);
  const Rows rows(subject, encoding, {m, n, m + shift, n + shift});
  const Range here = rows.dot(0, 1), there = rows.dot(2, 3);
  require_meet(here, there, "dot products of rows " + std::to_string(n - m) + " apart");
  const double whole = static_cast<double>(encoding.pairs()) * encoding.scale * encoding.scale;
  RC_CLASSIFY(m != n && shift != 0 && radius(here) + radius(there) < whole / 64, "tells");
}

/// Attention tells positions apart by their rows: those of 0, 1, …, 7 differ in the first pair
/// alone.
void near_positions_have_rows_of_their_own(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const std::int64_t first = *positions(1024);
  const Rows rows(subject, encoding, {first, first + *between(1, 7)});
  const Pair a = rows.pair(0, 0), b = rows.pair(1, 0);
  RC_ASSERT(!meet(a(0), b(0)) || !meet(a(1), b(1)));
}

/// sin 0 = 0 and cos 0 = 1, and an odd width ends in 0.
void position_0_and_padding_are_exact(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const Rows rows(subject, encoding, {0, *positions(kFar)});
  for (std::size_t i = 0; i < encoding.pairs(); ++i) {
    const Pair pair = rows.pair(0, i);
    RC_ASSERT(estimate(pair(0)) == 0);
    RC_ASSERT(estimate(pair(1)) == encoding.scale);
  }
  const bool odd = encoding.width % 2 != 0;
  if (odd)
    for (std::size_t row : {1, 2}) RC_ASSERT(rows.table().got.value(row * encoding.width - 1) == 0);
  RC_CLASSIFY(odd, "odd width");
}

}  // namespace

std::vector<Law> laws() {
  const std::vector<std::string> table{"sinusoidal.table"};
  return {
      {"sinusoidal/a_step_rotates_every_pair", table, a_step_rotates_every_pair, {"several pairs"}},
      {"sinusoidal/every_pair_lies_on_the_unit_circle",
       table,
       every_pair_lies_on_the_unit_circle,
       {"tells"}},
      {"sinusoidal/the_dot_product_of_two_rows_depends_on_their_distance_only",
       table,
       the_dot_product_of_two_rows_depends_on_their_distance_only,
       {"tells"}},
      {"sinusoidal/near_positions_have_rows_of_their_own", table,
       near_positions_have_rows_of_their_own},
      {"sinusoidal/position_0_and_padding_are_exact",
       table,
       position_0_and_padding_are_exact,
       {"odd width"}}};
}

}  // namespace posproof::properties::sinusoidal
