#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>

#include "fixtures/core/case.hpp"
#include "reference/core/registry.hpp"
#include "reference/core/truth.hpp"

namespace posproof {
namespace {

/// What one thread or all of them have compared.
struct Tally {
  std::size_t cases = 0, comparisons = 0, elements = 0, copied = 0;
  std::vector<std::string> failures;
  std::set<std::string> operations;
  std::map<std::string, std::size_t> by_recipe;

  void add(const Tally& other) {
    cases += other.cases;
    comparisons += other.comparisons;
    elements += other.elements;
    copied += other.copied;
    failures.insert(failures.end(), other.failures.begin(), other.failures.end());
    operations.insert(other.operations.begin(), other.operations.end());
    for (const auto& [name, count] : other.by_recipe) by_recipe[name] += count;
  }
};

/// The first element whose bits differ, or nothing.
std::string difference(const Tensor& first, const Tensor& second) {
  if (first.identical(second)) return "";
  if (first.dtype() != second.dtype() || first.shape() != second.shape())
    return "dtype or shape differ";
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first.bits(i) != second.bits(i)) {
      std::ostringstream text;
      text << to_string(index_of(i, first.shape())) << " intervals " << std::hexfloat
           << first.value(i) << " second arithmetic " << second.value(i);
      return text.str();
    }
  return "identical() and bits() disagree";
}

void compare(const Case& asked, Tally& tally) {
  const Operation& operation = find_operation(asked.operation);
  const Parameters parameters = checked_parameters(operation, asked.parameters);
  std::vector<Recipe> recipes{Recipe::exact};
  recipes.insert(recipes.end(), operation.recipes.begin(), operation.recipes.end());
  for (Recipe recipe : recipes) {
    const Truth first = truth_of(operation, parameters, asked.inputs, recipe);
    const Truth second = second_truth_of(operation, parameters, asked.inputs, recipe);
    const std::string where = asked.id + " recipe " + std::string(name(recipe)) + " ";
    if (first.size() != operation.outputs.size() || second.size() != first.size())
      tally.failures.push_back(where + "has other outputs than the operation declares");
    for (const auto& [output, truth] : first) {
      const TrueOutput& other = second.at(output);
      for (const std::string& found :
           {difference(truth.exact, other.exact), difference(truth.rounded, other.rounded)})
        if (!found.empty()) tally.failures.push_back(where + output + found);
      if (truth.copied != other.copied)
        tally.failures.push_back(where + output + " copies other lanes");
      tally.elements += 2 * truth.exact.size();
      for (std::uint8_t copied : truth.copied) tally.copied += copied;
    }
    ++tally.comparisons;
    tally.by_recipe[std::string(name(recipe))] += 1;
  }
  ++tally.cases;
  tally.operations.insert(operation.name);
}

/// Two threads, which also shows that static precision and MPFR's state keep out of each other's
/// way.
Tally compared_by_two_threads(const std::vector<Case>& cases) {
  Tally all;
  std::mutex lock;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    Tally own;
    for (std::size_t i = next++; i < cases.size(); i = next++) {
      if (cases[i].must_be_refused) continue;
      try {
        compare(cases[i], own);
      } catch (const std::exception& error) {
        own.failures.push_back(cases[i].id + " " + error.what());
      }
    }
    mpfr_free_cache();
    const std::lock_guard<std::mutex> hold(lock);
    all.add(own);
  };
  std::thread other(work);
  work();
  other.join();
  return all;
}

TEST(second_arithmetic, agrees_bit_for_bit_on_every_case_and_recipe) {
  const std::vector<Case> cases = all_cases();
  const auto refusals = static_cast<std::size_t>(std::count_if(
      cases.begin(), cases.end(), [](const Case& each) { return each.must_be_refused; }));
  const Tally tally = compared_by_two_threads(cases);
  std::cout << tally.cases << " cases, " << tally.comparisons << " with recipes, " << tally.elements
            << " elements compared (" << tally.copied << " copied), " << tally.failures.size()
            << " differ\n";
  for (const auto& [recipe, count] : tally.by_recipe)
    std::cout << "  " << recipe << ": " << count << " cases\n";
  for (const std::string& failure : tally.failures) ADD_FAILURE() << failure;
  EXPECT_GT(tally.cases, 0u);
  EXPECT_EQ(tally.cases + refusals, cases.size());
  EXPECT_GT(tally.elements, 2 * tally.copied);
  for (const Scheme* scheme : schemes())
    for (const Operation& operation : scheme->operations)
      EXPECT_TRUE(tally.operations.count(operation.name)) << operation.name << " has no case";
  for (const char* recipe : {"exact", "hf_f32", "ggml_f32_chain"})
    EXPECT_GT(tally.by_recipe.count(recipe), 0u) << recipe;
}

/// 1 + u + 2^-120 lies above the tie of 1 and its upper neighbour; the nearest f64 is the tie
/// itself, from which a second rounding goes down to 1.
TEST(second_arithmetic, the_output_type_is_reached_by_one_rounding) {
  const Operation& operation = find_operation("shaw.key_logits");
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const double u = format_of(dtype).unit_roundoff();
    const Tensors inputs{{"q", Tensor(dtype, {1, 1, 3}, {1, u, 0x1p-60})},
                         {"relative_keys", Tensor(dtype, {1, 3}, {1, 1, 0x1p-60})},
                         {"q_positions", Tensor::integers({1}, {0})},
                         {"k_positions", Tensor::integers({1}, {0})}};
    const Parameters parameters = checked_parameters(operation, {{"max_distance", 0}});
    for (const auto& truth : {truth_of, second_truth_of}) {
      const Truth found = truth(operation, parameters, inputs, Recipe::exact);
      EXPECT_EQ(found.at("logits").exact.value(0), 1 + u);
      EXPECT_EQ(found.at("logits").rounded.value(0), 1 + 2 * u);
    }
  }
}

/// The exponent of a slope is the exact product of bias_max (any f64) and the head's multiple: f64
/// slopes are what 1000 digits make of it. (The product rounded to double gets 29 % of them wrong.)
TEST(second_arithmetic, alibi_slopes_are_of_the_exact_bias_max) {
  const Operation& operation = find_operation("alibi.slopes");
  for (double bias_max : {0.1, 0.3, 5.7, 7.9, 12.34567890123, 1.6})
    for (int heads : {8, 16, 71}) {
      const Parameters parameters = checked_parameters(
          operation, {{"num_heads", heads}, {"bias_max", bias_max}, {"rule", "geometric"}});
      const Tensor slopes = truth_of(operation, parameters, {}).at("slopes").exact;
      for (int h = 0; h < heads; ++h) {
        double expected;
        ASSERT_TRUE(round_certainly(
            power(Real1000(2), Real1000(Real1000(-bias_max) * Real1000(h + 1) / Real1000(heads))),
            format_of(Dtype::f64), false, expected));
        EXPECT_EQ(slopes.value(static_cast<std::size_t>(h)), expected)
            << "bias_max " << bias_max << " head " << h << " of " << heads;
      }
    }
}

/// The recipes promise the bits of f32 hardware: single precision products and quotients of the
/// machine, and powers rounded from double.
TEST(second_arithmetic, recipes_are_what_f32_hardware_computes) {
  const std::vector<std::int64_t> positions{1, 3, 4097, 131071, 16777217, 2147483647};
  const Tensors inputs{{"positions", Tensor::integers({positions.size()}, positions)}};
  const Operation& table = find_operation("rope.cos_sin");
  const Operation& frequencies = find_operation("rope.inv_freq");
  const auto power = [](float base, float exponent) {
    return static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  };
  for (float base : {10000.f, 500000.f, 1e6f})
    for (float factor : {1.f, 2.5f}) {
      const nlohmann::json given{{"head_dim", 96},
                                 {"rope_theta", base},
                                 {"rope_scaling", {{"rope_type", "linear"}, {"factor", factor}}}};
      const Parameters p = checked_parameters(table, given);
      const Truth hf = truth_of(table, p, inputs, Recipe::hf_f32);
      const Truth chain = truth_of(table, p, inputs, Recipe::ggml_f32_chain);
      const Tensor omega =
          truth_of(frequencies, checked_parameters(frequencies, given), {}, Recipe::hf_f32)
              .at("inv_freq")
              .exact;
      const float ratio = power(base, -2.f / 96.f);
      for (std::size_t t = 0; t < positions.size(); ++t) {
        float running = static_cast<float>(positions[t]);
        for (std::size_t i = 0; i < 48; ++i, running *= ratio) {
          const float inv_freq = 1.f / power(base, static_cast<float>(2 * i) / 96.f) / factor;
          ASSERT_EQ(omega.value(i), inv_freq) << i;
          const double angle = static_cast<float>(positions[t]) * inv_freq;
          const double chained = (1.f / factor) * running;
          const std::size_t at = t * 48 + i;
          ASSERT_DOUBLE_EQ(hf.at("sin").exact.value(at), std::sin(angle)) << at;
          ASSERT_DOUBLE_EQ(hf.at("cos").exact.value(at), std::cos(angle)) << at;
          ASSERT_DOUBLE_EQ(chain.at("sin").exact.value(at), std::sin(chained)) << at;
          ASSERT_DOUBLE_EQ(chain.at("cos").exact.value(at), std::cos(chained)) << at;
        }
      }
    }
}

/// "positions: found 12, …" and "rope_scaling.factor: missing; …" name what they are about.
std::string named_in(const std::string& message) { return message.substr(0, message.find(':')); }

/// Parameters and inputs of the operation, and of those it calls.
std::set<std::string> names_of(const Operation& operation, const nlohmann::json& given) {
  std::set<std::string> names;
  for (const ParameterSpec& spec : operation.parameters) names.insert(spec.name);
  try {
    const Parameters parameters(operation.parameters, given);
    if (operation.calls)
      for (const auto& [where, called] : operation.calls(parameters))
        for (const ParameterSpec& spec : find_operation(called).parameters) {
          names.insert(spec.name);
          names.insert(where + "." + spec.name);
        }
    for (const InputSpec& spec : operation.inputs(parameters)) names.insert(spec.name);
  } catch (const std::invalid_argument&) {
    // The parameters are what is wrong: inputs cannot be known.
  }
  return names;
}

TEST(second_arithmetic, refuses_what_must_be_refused_and_names_the_parameter_or_input) {
  std::size_t refused = 0;
  for (const Case& asked : all_cases()) {
    if (!asked.must_be_refused) continue;
    const Operation& operation = find_operation(asked.operation);
    const std::set<std::string> names = names_of(operation, asked.parameters);
    for (const auto& truth : {truth_of, second_truth_of}) try {
        truth(operation, checked_parameters(operation, asked.parameters), asked.inputs,
              Recipe::exact);
        ADD_FAILURE() << asked.id << " (" << asked.comment << ") was answered";
      } catch (const Refused& refusal) {
        const std::string message = refusal.what();
        EXPECT_TRUE(names.count(named_in(message))) << asked.id << ": " << message;
        EXPECT_GT(message.size(), named_in(message).size() + 10) << asked.id << ": " << message;
        ++refused;
      } catch (const std::exception& error) {
        ADD_FAILURE() << asked.id << " (" << asked.comment << ") threw " << error.what();
      }
  }
  std::cout << refused << " refusals\n";
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace posproof
