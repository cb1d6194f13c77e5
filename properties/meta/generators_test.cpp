#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "properties/core/calls.hpp"
#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"
#include "reference/core/registry.hpp"

namespace posproof::properties {
namespace {

/// Answers nothing: for what only draws.
class Mute : public Implementation {
 public:
  Answer start(std::chrono::milliseconds) override { return {}; }
  const Description& description() const override { return description_; }
  Answer run(const Request&, std::chrono::milliseconds) override { return {}; }

 private:
  Description description_;
};

/// Draws many values and hands each to `look`.
template <class T>
void draw(const rc::Gen<T>& generator, int count, const std::function<void(const T&)>& look) {
  for (int i = 0; i < count; ++i)
    look(
        rc::Gen<T>(generator)(rc::Random(static_cast<std::uint64_t>(i)), rc::kNominalSize).value());
}

TEST(Floats, meet_every_class_in_every_type) {
  for (Dtype dtype : kFloatDtypes) {
    const FloatFormat format = format_of(dtype);
    const double least_normal = std::ldexp(format.smallest(), format.precision - 1);
    std::set<std::string> met;
    draw<double>(floats(dtype, 2), 4000, [&](double x) {
      ASSERT_LT(std::fabs(x), 4);
      ASSERT_EQ(round_to(x, format), x);
      if (x == 0) met.insert(std::signbit(x) ? "-0" : "0");
      if (x != 0 && std::fabs(x) < least_normal) met.insert("subnormal");
      if (std::fabs(x) == 1) met.insert("1");
      if (x == 1 + 2 * format.unit_roundoff()) met.insert("next to 1");
      if (x == 1 - format.unit_roundoff()) met.insert("before 1");
      if (x < 0) met.insert("negative");
    });
    EXPECT_EQ(met, (std::set<std::string>{"-0", "0", "subnormal", "1", "next to 1", "before 1",
                                          "negative"}))
        << name(dtype);
  }
}

TEST(Floats, use_the_whole_significand) {
  for (Dtype dtype : kFloatDtypes) {
    std::set<int> last_bits;
    draw<double>(floats(dtype, 1), 200, [&](double x) {
      int exponent;
      const double significand = std::frexp(std::fabs(x), &exponent);
      if (x != 0)
        last_bits.insert(
            static_cast<int>(std::fmod(std::ldexp(significand, format_of(dtype).precision), 2)));
    });
    EXPECT_EQ(last_bits, (std::set<int>{0, 1})) << name(dtype);
  }
}

TEST(Positions, meet_zero_powers_contexts_and_multiples_of_pi) {
  std::set<std::string> met;
  const std::int64_t limit = (std::int64_t{1} << 31) - 1;
  draw<std::int64_t>(positions(limit), 4000, [&](std::int64_t p) {
    ASSERT_LE(std::abs(p), limit);
    const std::int64_t size = std::abs(p);
    if (p == 0) met.insert("0");
    if (p < 0) met.insert("negative");
    if (size > 256 && (size & (size - 1)) == 0) met.insert("2^k");
    if (size > 256 && ((size + 1) & size) == 0) met.insert("2^k - 1");
    if (size > 256 && ((size - 1) & (size - 2)) == 0) met.insert("2^k + 1");
    if (size == 4096) met.insert("end of a context");
    if (size > 20 && std::fabs(std::remainder(static_cast<double>(size), std::numbers::pi)) < 1e-3)
      met.insert("multiple of pi");
    if (size > 1 << 24) met.insert("beyond f32");
    const double turns =
        static_cast<double>(size) * std::pow(10000, -32. / 64) / std::numbers::pi * 2;
    if (size > 300 && std::fabs(turns - std::round(turns)) < 0.0032) met.insert("quarter turn");
  });
  EXPECT_EQ(met.size(), 9u);
}

TEST(Permutations, are_permutations) {
  std::set<std::vector<std::size_t>> met;
  draw<std::vector<std::size_t>>(permutations(3), 500, [&](const std::vector<std::size_t>& order) {
    EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()), (std::set<std::size_t>{0, 1, 2}));
    met.insert(order);
  });
  EXPECT_EQ(met.size(), 6u);
}

/// What shrinking leaves of the first value that `fails`.
template <class T>
T smallest(const rc::Gen<T>& generator, const std::function<bool(const T&)>& fails) {
  for (std::uint64_t seed = 0; seed < 10000; ++seed) {
    rc::Shrinkable<T> found = generator(rc::Random(seed), rc::kNominalSize);
    if (!fails(found.value())) continue;
    for (bool smaller = true; smaller;) {
      smaller = false;
      auto shrinks = found.shrinks();
      while (auto next = shrinks.next())
        if (fails(next->value())) {
          found = *next;
          smaller = true;
          break;
        }
    }
    return found.value();
  }
  throw std::logic_error("never drawn");
}

TEST(Shrinking, ends_in_what_a_person_can_read) {
  EXPECT_EQ(smallest<std::int64_t>(positions(1 << 20), [](auto p) { return p > 256; }), 257);
  EXPECT_EQ(smallest<std::int64_t>(positions(1 << 20), [](auto p) { return p < -99; }), -100);
  EXPECT_EQ(smallest<double>(floats(Dtype::f64, 2), [](double x) { return x < 0; }), -1.0);
  EXPECT_EQ(smallest<double>(floats(Dtype::f64, 4), [](double x) { return x > 5; }), 8.0);
  const Tensor one_left = smallest<Tensor>(tensors(Dtype::f32, {2, 3}), [](const Tensor& tensor) {
    return std::fabs(tensor.value(4)) >= 0.5;
  });
  EXPECT_EQ(one_left.values(), (std::vector<double>{0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(smallest<std::vector<std::size_t>>(permutations(4),
                                               [](const auto& order) { return order[0] != 0; }),
            (std::vector<std::size_t>{1, 0, 2, 3}));
}

/// Runs `experiment` on many draws, as a law does.
void experiments(const std::function<void(Subject&)>& experiment, int count) {
  Mute mute;
  Subject subject(mute, std::nullopt);
  const Finding finding =
      check({"meta", {}, experiment}, subject, {.seed = 5, .experiments = count});
  EXPECT_EQ(finding.verdict, Finding::Verdict::pass) << finding.message;
  EXPECT_GE(finding.tests, count);
}

TEST(Calls, are_answered_by_the_truth_and_take_every_value) {
  for (const Scheme* scheme : schemes())
    for (const Operation& operation : scheme->operations) {
      std::set<std::string> values, inputs;
      experiments(
          [&](Subject& subject) {
            const Call call = drawn_call(subject, operation);
            for (const ParameterSpec& spec : operation.parameters)
              if (call.parameters.contains(pointer_to(spec.name)))
                values.insert(spec.name + "=" + call.parameters.at(pointer_to(spec.name)).dump());
            for (const auto& [name, tensor] : call.inputs) inputs.insert(name);
            truth_of(operation, call.checked(), call.inputs);
          },
          200);
      for (const ParameterSpec& spec : operation.parameters) {
        for (const std::string& choice : spec.choices)
          EXPECT_TRUE(values.count(spec.name + "=\"" + choice + "\""))
              << operation.name << " never has " << spec.name << " " << choice;
        if (spec.kind == ParameterSpec::Kind::boolean) {
          for (const char* value : {"true", "false"})
            EXPECT_TRUE(values.count(spec.name + "=" + value)) << operation.name << spec.name;
        }
        EXPECT_TRUE(std::any_of(
            values.begin(), values.end(),
            [&](const std::string& value) { return value.rfind(spec.name + "=", 0) == 0; }))
            << operation.name << " never has " << spec.name;
      }
    }
}

TEST(Calls, in_a_batch_are_batches) {
  for (const Scheme* scheme : schemes())
    for (const Operation& operation : scheme->operations)
      if (operation.may_be_batched)
        experiments(
            [&](Subject& subject) {
              const Call call = drawn_call(subject, operation, {.batched = true});
              RC_ASSERT(is_batched(operation, call.checked(), call.inputs));
            },
            20);
}

TEST(Refusals, are_refused_by_the_truth) {
  for (const Scheme* scheme : schemes())
    for (const Operation& operation : scheme->operations) {
      if (!operation.refuse) continue;
      experiments(
          [&](Subject& subject) {
            const Call call = drawn_call(subject, operation);
            const nlohmann::json parameters = drawn_refusal(operation, call.parameters);
            bool refused = false;
            try {
              checked_parameters(operation, parameters);
            } catch (const Refused&) {
              refused = true;
            }
            RC_ASSERT(refused);
          },
          50);
    }
}

TEST(Entries, are_taken_along_their_axis_alone) {
  const Operation& apply = find_operation("rope.apply");
  Tensor x(Dtype::f32, {3, 2, 2});
  for (std::size_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i));
  const Call call{&apply, {{"head_dim", 2}}, {{"x", x}, {"positions", integers({5, 6, 7})}}};
  const auto axes = free_axes(call);
  EXPECT_EQ(axes, (std::map<std::string, std::size_t>{{"T", 3}, {"H", 2}}));
  const Call tokens = entries_of(call, "T", {2, 0}), heads = entries_of(call, "H", {1});
  EXPECT_EQ(tokens.inputs.at("x").values(), (std::vector<double>{8, 9, 10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(tokens.inputs.at("positions").values(), (std::vector<double>{7, 5}));
  EXPECT_EQ(heads.inputs.at("x").values(), (std::vector<double>{2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(heads.inputs.at("positions").size(), 3u);
}

}  // namespace
}  // namespace posproof::properties
