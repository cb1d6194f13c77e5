#include <cmath>

#include "properties/sinusoidal.hpp"

namespace posproof::properties::sinusoidal {
namespace {

/// A closed form has no end: sin 2θ = 2·sin θ·cos θ and cos 2θ = cos² θ − sin² θ lead from any row
/// to one twice as far.
void rows_are_defined_beyond_any_training_length(Subject& subject) {
  const Encoding encoding = drawn_encoding(subject);
  const std::int64_t p = *rc::gen::weightedOneOf<std::int64_t>(
      {{1, between(1 << 14, 1 << 20)}, {1, between(1 << 20, (1 << 30) - 1)}});
  const Rows rows(subject, encoding, {p, 2 * p, (std::int64_t{1} << 31) - 1});
  for (std::size_t i = 0; i < rows.table().got.size(); ++i)
    RC_ASSERT(std::isfinite(rows.table().got.value(i)));
  const Range scale(encoding.scale);
  bool tells = false;
  for (std::size_t i = 0; i < encoding.pairs(); ++i) {
    const Pair one = rows.pair(0, i), two = rows.pair(1, i), last = rows.pair(2, i);
    require_meet(scale * two(0), Range(2) * one(0) * one(1), "sin of 2p, " + of_pair(i));
    require_meet(scale * two(1), one(1) * one(1) - one(0) * one(0), "cos of 2p, " + of_pair(i));
    require_meet(last.dot(last), scale * scale, "norm at 2^31 − 1, " + of_pair(i));
    tells = tells || radius(two(0)) < encoding.scale / 64;
  }
  RC_CLASSIFY(tells && p < 1 << 20, "beyond training");
  RC_CLASSIFY(tells && p >= 1 << 20, "far beyond training");
}

/// Close to a whole number of turns of 1 radian: from the convergents of 2π.
const std::vector<std::int64_t> kNearWholeTurns{710, 103993, 312689};

/// |PE(p + k) − PE(p)|² = Σ 4·scale²·sin²(kω/2) for frequencies 1 and 1/m, the same for every p.
Range squared_distance(const Encoding& encoding, std::int64_t k, std::int64_t m) {
  Range sum(0);
  for (std::int64_t divisor : {std::int64_t{1}, m}) {
    const Range half_turn = Range(static_cast<double>(k)) / Range(static_cast<double>(2 * divisor));
    const Range chord = Range(2 * encoding.scale) * sin_cos(half_turn).sin;
    sum += chord * chord;
  }
  return sum;
}

/// Why sinusoids extrapolate badly: a row far beyond training is nearer to that of p than the row
/// next to it. Frequencies 1 and 1/m both make nearly whole turns in m·n positions when n is close
/// to whole turns: with d_model 4 and base 10000, rows 100·710 apart differ by 0.0061.
void far_look_alikes_exist(Subject& subject) {
  Encoding encoding = drawn_encoding(subject);
  const std::int64_t m = *one_of(std::vector<std::int64_t>{100, 10, 2, 500});
  const bool is_half = *rc::gen::arbitrary<bool>();
  encoding.width = 4;
  encoding.parameters["d_model"] = 4;
  encoding.parameters["denominator"] = is_half ? "half" : "half_minus_one";
  encoding.parameters["base"] = static_cast<double>(is_half ? m * m : m);
  encoding.parameters.erase("odd");
  const std::int64_t p = *between(0, 512), k = m * *one_of(kNearWholeTurns);
  const Rows rows(subject, encoding, {p, p + 1, p + k});
  const auto apart = [&](std::size_t row) {
    Range sum(0);
    for (std::size_t lane = 0; lane < 4; ++lane) {
      const Range step = rows.table().range(row, lane) - rows.table().range(0, lane);
      sum += step * step;
    }
    return sum;
  };
  require_meet(apart(1), squared_distance(encoding, 1, m), "squared distance of neighbours");
  require_meet(apart(2), squared_distance(encoding, k, m),
               "squared distance of rows " + std::to_string(k) + " apart");
  RC_CLASSIFY(certainly_less(apart(2), apart(1)), "nearer than the neighbour");
}

}  // namespace

std::vector<Law> laws_of_extrapolation() {
  const std::vector<std::string> table{"sinusoidal.table"};
  return {{"sinusoidal/rows_are_defined_beyond_any_training_length",
           table,
           rows_are_defined_beyond_any_training_length,
           {"beyond training", "far beyond training"}},
          {"sinusoidal/far_look_alikes_exist",
           table,
           far_look_alikes_exist,
           {"nearer than the neighbour"}}};
}

}  // namespace posproof::properties::sinusoidal
