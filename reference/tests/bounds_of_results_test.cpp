// The limits of what acts on tensors: rotations (P1, P2, P3), and operations without a phase.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <random>

#include "reference/core/grade.hpp"
#include "reference/core/registry.hpp"

namespace posproof {
namespace {

using nlohmann::json;
using Values = std::vector<double>;

/// Numbers of `dtype` in (−2, 2), or in (0, 1).
Tensor numbers(Dtype dtype, Shape shape, unsigned seed, bool positive = false) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(positive ? 0 : -2, positive ? 1 : 2);
  Tensor tensor(dtype, std::move(shape));
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor.set(i, uniform(random));
  return tensor;
}

Tensor at(const std::vector<std::int64_t>& positions) {
  return Tensor::integers({positions.size()}, positions);
}

std::vector<std::int64_t> count_to(std::int64_t n) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

/// The largest error of `values` as a part of its limit for the grade.
double part_of_limit(const char* name, const json& given, const Tensors& inputs, Grade grade,
                     const Values& values) {
  const Operation& operation = find_operation(name);
  const Parameters p = checked_parameters(operation, given);
  const Dtype dtype = output_dtype(operation, p, inputs);
  const Bounds bounds =
      bounds_of(operation, p, inputs, rounding_of(grade, dtype, operation.has_phase(p)));
  const std::string output = operation.outputs[0].name;
  const Values exact = truth_of(operation, p, inputs).at(output).exact.values();
  const Bound& bound = bounds.at(output);
  EXPECT_EQ(values.size(), exact.size());
  double worst = 0;
  std::size_t evidence = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error = std::fabs(values[i] - exact[i]);
    if (!bound.evidence[i] || error == 0) continue;
    ++evidence;
    worst = std::max(worst, error / bound.limit[i]);
  }
  EXPECT_GT(evidence, 0u) << name << " " << given;
  return worst;
}

/// Within the limit, and at least `floor` of it.
void expect_tight(const char* what, double part, double floor) {
  std::cout << "  " << what << ": " << part << " of the limit\n";
  EXPECT_LE(part, 1) << what;
  EXPECT_GE(part, floor) << what;
}

void expect_exceeded(const char* what, double part) {
  std::cout << "  " << what << ": " << part << " times the limit\n";
  EXPECT_GT(part, 1) << what;
}

/// f(x) rounded to `dtype` after every step.
struct Stored {
  Dtype dtype;
  double operator()(double value) const { return round_to(value, format_of(dtype)); }
};

/// y in half layout at base 10000: the phase in F; table, products and sums stored in `kept`.
template <class F>
Values rotated(const Tensor& x, const std::vector<std::int64_t>& positions, Dtype kept) {
  const std::size_t width = x.shape()[2], pairs = width / 2;
  const Stored stored{kept};
  Values y(x.size());
  for (std::size_t t = 0; t < positions.size(); ++t)
    for (std::size_t i = 0; i < pairs; ++i) {
      const F omega = 1 / std::pow(F(10000), F(2 * i) / F(width));
      const F angle = static_cast<F>(positions[t]) * omega;
      const double cos = stored(std::cos(angle)), sin = stored(std::sin(angle));
      const std::size_t first = t * width + i, second = first + pairs;
      y[first] = stored(stored(x.value(first) * cos) - stored(x.value(second) * sin));
      y[second] = stored(stored(x.value(second) * cos) + stored(x.value(first) * sin));
    }
  return y;
}

Values stored_as(Dtype dtype, Values values) {
  for (double& value : values) value = Stored{dtype}(value);
  return values;
}

/// Where |δθ| may exceed 1/4 nothing is evidence, and nowhere else is it missing.
TEST(bounds_of_results, evidence_ends_where_the_phase_may_be_off_by_a_quarter) {
  const std::vector<std::int64_t> positions{1, 4097, 65537, 131071, 1048577, 16777217, 2147483647};
  const Operation& operation = find_operation("rope.cos_sin");
  const Bounds bounds =
      bounds_of(operation, checked_parameters(operation, {{"head_dim", 64}}),
                {{"positions", at(positions)}}, rounding_of(Grade::P2, Dtype::f32, true));
  std::size_t without = 0, with = 0;
  for (std::size_t row = 0; row < positions.size(); ++row)
    for (std::size_t i = 0; i < 32; ++i) {
      const double n = static_cast<double>(i), x = n / 32 * std::log(10000.0);
      const double c = 4 + std::max(3 * x, x + 3 * n);
      const double phase = c * 0x1p-24 * static_cast<double>(positions[row]) * std::exp(-x);
      for (const char* output : {"cos", "sin"})
        EXPECT_EQ(bounds.at(output).evidence[row * 32 + i], phase <= 0.25)
            << positions[row] << " " << i;
      (phase <= 0.25 ? with : without) += 1;
    }
  EXPECT_GT(without, 20u);
  EXPECT_GT(with, 20u);
}

TEST(bounds_of_results, rotations_by_every_grade) {
  std::vector<std::int64_t> positions = count_to(40);
  for (std::int64_t far : {257, 2049, 4097, 20001, 65537, 131071, 300007}) positions.push_back(far);
  const json p{{"head_dim", 128}};
  const auto part = [&](Grade grade, Dtype dtype, auto make) {
    const Tensor x = numbers(dtype, {positions.size(), 1, 128}, 7);
    return part_of_limit("rope.apply", p, {{"x", x}, {"positions", at(positions)}}, grade, make(x));
  };
  const auto in_f64 = [&](const Tensor& x) { return rotated<double>(x, positions, Dtype::f64); };
  const auto in_f32 = [&](const Tensor& x) { return rotated<float>(x, positions, Dtype::f32); };
  expect_tight("f64 under P1", part(Grade::P1, Dtype::f64, in_f64), 0.1);
  expect_tight("f32 under P2", part(Grade::P2, Dtype::f32, in_f32), 0.1);
  expect_exceeded("f32 under P1", part(Grade::P1, Dtype::f32, in_f32));
  for (Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    const auto once = [&](const Tensor& x) { return stored_as(dtype, in_f32(x)); };
    const auto each = [&](const Tensor& x) { return rotated<float>(x, positions, dtype); };
    expect_tight("16 bits at the end, under P2", part(Grade::P2, dtype, once), 0.5);
    expect_tight("16 bits at each step, under P3", part(Grade::P3, dtype, each), 0.3);
    expect_exceeded("16 bits at each step, under P2", part(Grade::P2, dtype, each));
    expect_exceeded("a 16-bit table under f32 inputs, P2", part(Grade::P2, Dtype::f32, each));
  }
  expect_exceeded("a bf16 phase under P3", part(Grade::P3, Dtype::bf16, [&](Tensor x) {
                    std::vector<std::int64_t> coarse;
                    for (std::int64_t p : positions)
                      coarse.push_back(static_cast<std::int64_t>(Stored{Dtype::bf16}(p)));
                    return rotated<float>(x, coarse, Dtype::bf16);
                  }));
}

TEST(bounds_of_results, rotation_by_given_waves) {
  const Tensor x = numbers(Dtype::f32, {50, 1, 64}, 1), cos = numbers(Dtype::f32, {50, 32}, 2),
               sin = numbers(Dtype::f32, {50, 32}, 3);
  const auto by = [&](Dtype kept) {
    const Stored stored{kept};
    Values y(x.size());
    for (std::size_t t = 0; t < 50; ++t)
      for (std::size_t i = 0; i < 32; ++i) {
        const std::size_t first = t * 64 + i, second = first + 32, wave = t * 32 + i;
        y[first] = stored(stored(x.value(first) * cos.value(wave)) -
                          stored(x.value(second) * sin.value(wave)));
        y[second] = stored(stored(x.value(second) * cos.value(wave)) +
                           stored(x.value(first) * sin.value(wave)));
      }
    return part_of_limit("rope.rotate", json::object(), {{"x", x}, {"cos", cos}, {"sin", sin}},
                         Grade::P1, y);
  };
  expect_tight("rotate in f32", by(Dtype::f32), 0.3);
  expect_exceeded("rotate in f16", by(Dtype::f16));
}

TEST(bounds_of_results, alibi_slopes_and_biases) {
  const auto slopes = [](Dtype kept, bool running) {
    const Stored stored{kept};
    const double base = stored(std::pow(2.0, -8.0 / 64));
    Values all;
    for (int h = 0; h < 64; ++h)
      all.push_back(running && h > 0 ? stored(all.back() * base) : stored(std::pow(base, h + 1)));
    return all;
  };
  const auto part_of_slopes = [&](Dtype kept, bool running) {
    return part_of_limit("alibi.slopes", {{"num_heads", 64}, {"dtype", "f32"}}, {}, Grade::P1,
                         slopes(kept, running));
  };
  expect_tight("running product of slopes in f32", part_of_slopes(Dtype::f32, true), 0.1);
  expect_tight("powers of a base in f32", part_of_slopes(Dtype::f32, false), 0.05);
  expect_exceeded("slopes in bf16", part_of_slopes(Dtype::bf16, false));
  const std::vector<std::int64_t> keys{0, 1, 2, 255, 257, 1001, 4097};
  const auto biases = [&](Dtype kept) {
    Values all;
    for (double slope : slopes(kept, false))
      for (std::int64_t key : keys)
        all.push_back(Stored{kept}(slope * Stored{kept}(static_cast<double>(key - 4097))));
    return part_of_limit("alibi.bias", {{"num_heads", 64}, {"dtype", "f32"}},
                         {{"q_positions", at({4097})}, {"k_positions", at(keys)}}, Grade::P1, all);
  };
  expect_tight("biases in f32", biases(Dtype::f32), 0.1);
  expect_exceeded("biases in bf16", biases(Dtype::bf16));
}

TEST(bounds_of_results, shaw_dot_products) {
  const Tensor q = numbers(Dtype::f32, {2, 20, 8}, 1), keys = numbers(Dtype::f32, {9, 8}, 2),
               weights = numbers(Dtype::f32, {2, 20, 6}, 3, true);
  const Tensors places{{"q_positions", at(count_to(20))}, {"k_positions", at(count_to(6))}};
  const auto row = [](std::size_t i, std::size_t j) {
    return static_cast<std::size_t>(std::clamp(static_cast<int>(j) - static_cast<int>(i), -4, 4) +
                                    4);
  };
  const auto logits = [&](Dtype kept) {
    Values all;
    for (std::size_t query = 0; query < 40; ++query)
      for (std::size_t j = 0; j < 6; ++j) {
        double sum = 0;
        for (std::size_t d = 0; d < 8; ++d)
          sum = Stored{kept}(
              sum + Stored{kept}(q.value(query * 8 + d) * keys.value(row(query % 20, j) * 8 + d)));
        all.push_back(sum);
      }
    Tensors inputs = places;
    inputs.emplace("q", q);
    inputs.emplace("relative_keys", keys);
    return part_of_limit("shaw.key_logits", {{"max_distance", 4}}, inputs, Grade::P1, all);
  };
  const auto values = [&](Dtype kept) {
    Values all;
    for (std::size_t query = 0; query < 40; ++query)
      for (std::size_t d = 0; d < 8; ++d) {
        double sum = 0;
        for (std::size_t j = 0; j < 6; ++j)
          sum = Stored{kept}(sum + Stored{kept}(weights.value(query * 6 + j) *
                                                keys.value(row(query % 20, j) * 8 + d)));
        all.push_back(sum);
      }
    Tensors inputs = places;
    inputs.emplace("weights", weights);
    inputs.emplace("relative_values", keys);
    return part_of_limit("shaw.value_term", {{"max_distance", 4}}, inputs, Grade::P1, all);
  };
  expect_tight("key logits in f32", logits(Dtype::f32), 0.15);
  expect_exceeded("key logits in f16", logits(Dtype::f16));
  expect_tight("value term in f32", values(Dtype::f32), 0.15);
  expect_exceeded("value term in f16", values(Dtype::f16));
}

/// q, k and v of 8 queries and 10 keys; q times `spread`: 0 leaves softmax, sum and v alone.
void expect_attention(const char* what, double spread, double floor) {
  Tensor q = numbers(Dtype::f32, {1, 8, 16}, 1);
  for (std::size_t i = 0; i < q.size(); ++i) q.set(i, q.value(i) * spread);
  const Tensor k = numbers(Dtype::f32, {1, 10, 16}, 2), v = numbers(Dtype::f32, {1, 10, 16}, 3);
  const auto by = [&](Dtype kept) {
    const Stored stored{kept};
    Values all;
    for (std::size_t i = 0; i < 8; ++i) {
      Values weight;
      double sum = 0;
      for (std::size_t j = 0; j < 10; ++j) {
        double score = 0;
        for (std::size_t d = 0; d < 16; ++d)
          score = stored(score + stored(q.value(i * 16 + d) * k.value(j * 16 + d)));
        weight.push_back(stored(std::exp(stored(score * 0.25))));
        sum = stored(sum + weight.back());
      }
      for (std::size_t d = 0; d < 16; ++d) {
        double mixed = 0;
        for (std::size_t j = 0; j < 10; ++j)
          mixed = stored(mixed + stored(stored(weight[j] / sum) * v.value(j * 16 + d)));
        all.push_back(mixed);
      }
    }
    return part_of_limit("attention", json::object(), {{"q", q}, {"k", k}, {"v", v}}, Grade::P1,
                         all);
  };
  expect_tight(what, by(Dtype::f32), floor);
  expect_exceeded("the same in bf16", by(Dtype::bf16));
}

TEST(bounds_of_results, attention) {
  expect_attention("attention in f32", 1, 0.02);
  expect_attention("attention in f32 with wide scores", 4, 0.04);
  expect_attention("attention in f32 with equal scores", 0, 0.01);
}

}  // namespace
}  // namespace posproof
