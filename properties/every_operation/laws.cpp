#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "properties/core/calls.hpp"
#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"
#include "reference/core/registry.hpp"

namespace posproof::properties::every_operation {
namespace {

using Order = std::vector<std::size_t>;
using Outputs = std::map<std::string, Measured>;

void require_same_bits(const Outputs& first, const Outputs& again) {
  for (const auto& [name, output] : first)
    if (!output.got.identical(again.at(name).got))
      RC_FAIL(name + " differs from the answer to the same call before");
}

void the_same_call_twice_gives_the_same_bits(Subject& subject, const Operation& operation) {
  const Call call = drawn_call(subject, operation);
  const Outputs first = measured(subject, call), again = measured(subject, call);
  require_same_bits(first, again);
}

/// Two other calls come between: one in the same shapes, which a stale table would serve, and one
/// of other parameters.
void what_was_asked_before_does_not_matter(Subject& subject, const Operation& operation) {
  const Call call = drawn_call(subject, operation), same_shapes = redrawn(subject, call),
             other = drawn_call(subject, operation);
  const Outputs first = measured(subject, call), between = measured(subject, same_shapes);
  measured(subject, other);
  require_same_bits(between, measured(subject, same_shapes));
  require_same_bits(first, measured(subject, call));
}

/// Neither its parameters nor half of its work serves the next call.
void a_refused_call_leaves_nothing_behind(Subject& subject, const Operation& operation) {
  const Call call = drawn_call(subject, operation);
  const Outputs first = measured(subject, call);
  subject.ask(operation.name, drawn_refusal(operation, call.parameters), call.inputs);
  require_same_bits(first, measured(subject, call));
}

Order all_of(std::size_t count) {
  Order order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

/// Entry n of `part` along the axis `symbol` is entry entries[n] of `whole`.
void require_entries(const Call& call, const Outputs& whole, const Outputs& part,
                     const std::string& symbol, const Order& entries) {
  const bool batched = is_batched(*call.operation, call.checked(), call.inputs);
  for (const OutputSpec& spec : call.operation->outputs) {
    std::vector<std::string> shape = spec.shape;
    if (batched) shape.insert(shape.begin(), "B");
    const auto axis = axis_of(shape, symbol);
    const Measured &all = whole.at(spec.name), &some = part.at(spec.name);
    for (std::size_t i = 0; i < some.got.size(); ++i) {
      Shape at = index_of(i, some.got.shape());
      if (axis) at[*axis] = entries[at[*axis]];
      std::size_t flat = 0;
      for (std::size_t d = 0; d < at.size(); ++d) flat = flat * all.got.shape()[d] + at[d];
      require_meet(all.range.data()[flat], some.range.data()[i],
                   spec.name + to_string(at) + " in the whole and alone");
    }
  }
}

struct Cut {
  Call call;
  std::string symbol;
  std::size_t extent;
};

Cut drawn_cut(Subject& subject, const Operation& operation) {
  Call call = drawn_call(subject, operation, {.every_input = true});
  const auto axes = free_axes(call);
  RC_PRE(!axes.empty());
  const std::vector<std::pair<std::string, std::size_t>> listed(axes.begin(), axes.end());
  const auto [symbol, extent] = *one_of(listed);
  return {std::move(call), symbol, extent};
}

/// Incremental decoding, chunked prefill and shards of heads are all of this kind.
void chunks_equal_the_whole(Subject& subject, const Operation& operation) {
  const Cut cut = drawn_cut(subject, operation);
  const Outputs whole = measured(subject, cut.call);
  const std::size_t step = *count_between(1, cut.extent - 1);
  const bool backwards = *rc::gen::arbitrary<bool>();
  std::vector<Order> chunks;
  for (std::size_t first = 0; first < cut.extent; first += step) {
    Order chunk(std::min(step, cut.extent - first));
    std::iota(chunk.begin(), chunk.end(), first);
    chunks.push_back(chunk);
  }
  if (backwards) std::reverse(chunks.begin(), chunks.end());
  for (const Order& chunk : chunks)
    require_entries(cut.call, whole, measured(subject, entries_of(cut.call, cut.symbol, chunk)),
                    cut.symbol, chunk);
  RC_TAG("cut along " + cut.symbol);
  RC_CLASSIFY(step == 1, "one at a time");
  RC_CLASSIFY(step > 1, "chunks");
}

/// In another order, and some of them twice.
void reordering_entries_reorders_the_answer(Subject& subject, const Operation& operation) {
  const Cut cut = drawn_cut(subject, operation);
  Order entries;
  for (std::int64_t entry : *rc::gen::container<std::vector<std::int64_t>>(
           cut.extent + 1, between(0, static_cast<std::int64_t>(cut.extent) - 1)))
    entries.push_back(static_cast<std::size_t>(entry));
  require_entries(cut.call, measured(subject, cut.call),
                  measured(subject, entries_of(cut.call, cut.symbol, entries)), cut.symbol,
                  entries);
  RC_TAG("reordered along " + cut.symbol);
  RC_CLASSIFY(!std::is_sorted(entries.begin(), entries.end()), "out of order");
}

void a_batch_equals_its_rows(Subject& subject, const Operation& operation) {
  const Call batch = drawn_call(subject, operation, {.batched = true});
  const Outputs whole = measured(subject, batch);
  for (std::size_t row : all_of(batch.inputs.begin()->second.shape()[0])) {
    Call single{batch.operation, batch.parameters, {}};
    for (const auto& [name, tensor] : batch.inputs) single.inputs.emplace(name, tensor.slice(row));
    for (const auto& [name, output] : measured(subject, single)) {
      const Measured& all = whole.at(name);
      const std::size_t size = output.got.size();
      for (std::size_t i = 0; i < size; ++i)
        require_meet(all.range.data()[row * size + i], output.range.data()[i],
                     name + "[" + std::to_string(i) + "] of batch row " + std::to_string(row));
    }
  }
}

bool takes_numbers(const Operation& operation) {
  const bool needs_none = std::none_of(operation.parameters.begin(), operation.parameters.end(),
                                       [](const ParameterSpec& spec) { return spec.required; });
  return operation.has_float_inputs(
      needs_none ? Parameters(operation.parameters, nlohmann::json::object()) : Parameters());
}

/// What an element that is no number may spoil is what the formula in double says.
void nan_and_infinity_touch_only_what_they_enter(Subject& subject, const Operation& operation) {
  const Call call = drawn_call(subject, operation);
  std::vector<std::string> reals;
  for (const auto& [name, tensor] : call.inputs)
    if (is_float(tensor.dtype()) && tensor.size() > 0) reals.push_back(name);
  RC_PRE(!reals.empty());
  Call poisoned = call;
  Tensor& input = poisoned.inputs.at(*one_of(reals));
  const double infinity = std::numeric_limits<double>::infinity();
  input.set(*count_between(0, input.size() - 1),
            *one_of(std::vector<double>{std::nan(""), infinity, -infinity}));

  const Outputs before = measured(subject, call);
  const Answer after = subject.ask(operation.name, poisoned.parameters, poisoned.inputs);
  if (after.kind == Answer::Kind::unsupported) RC_DISCARD(after.message);
  if (after.kind != Answer::Kind::outputs) RC_FAIL("no outputs: " + after.message);
  bool spoiled = false, kept = false;
  for (const auto& [name, output] :
       operation.formula.estimate(call.checked(), Inputs<double>(poisoned.inputs), Recipe::exact)) {
    const Measured& whole = before.at(name);
    const auto found = after.outputs.find(name);
    if (found == after.outputs.end() || found->second.shape() != whole.got.shape())
      RC_FAIL("output " + name + " is missing or has another shape");
    for (std::size_t i = 0; i < whole.got.size(); ++i) {
      if (std::isnan(output.values.data()[i])) {
        spoiled = true;
        continue;
      }
      kept = true;
      require_meet(whole.range.data()[i], range_around(found->second.value(i), whole.limit[i]),
                   name + to_string(index_of(i, whole.got.shape())) + ", which it does not enter");
    }
  }
  RC_CLASSIFY(spoiled && kept, "some spoiled, some kept");
}

/// The formula at 60 digits on the same inputs.
void require_truth(Subject& subject, const Call& call) {
  const Outputs answered = measured(subject, call);
  for (const auto& [name, truth] :
       call.operation->formula.at_60(call.checked(), Inputs<Real60>(call.inputs), Recipe::exact)) {
    const Measured& output = answered.at(name);
    for (std::size_t i = 0; i < output.got.size(); ++i)
      if (truth.is_integer)
        RC_ASSERT(output.got.integer(i) == truth.integers.data()[i]);
      else
        require_meet(truth.values.data()[i], output.range.data()[i],
                     "the truth and " + name + to_string(index_of(i, output.got.shape())));
  }
}

void random_calls_agree_with_the_truth(Subject& subject, const Operation& operation) {
  require_truth(subject, drawn_call(subject, operation));
}

/// Flushed to zero, or a sign lost, on the way.
void zeros_and_subnormals_are_numbers_like_others(Subject& subject, const Operation& operation) {
  const Call call = drawn_call(subject, operation, {.subnormal = true});
  bool subnormal = false;
  for (const auto& [name, tensor] : call.inputs) {
    if (!is_float(tensor.dtype())) continue;
    const FloatFormat format = format_of(tensor.dtype());
    const double least_normal = std::ldexp(format.smallest(), format.precision - 1);
    for (double value : tensor.values())
      subnormal = subnormal || (value != 0 && std::fabs(value) < least_normal);
  }
  require_truth(subject, call);
  RC_CLASSIFY(subnormal, "subnormal");
}

void what_must_be_refused_is_refused(Subject& subject, const Operation& operation) {
  Call call = drawn_call(subject, operation);
  call.parameters = drawn_refusal(operation, call.parameters);
  // Distances of 0 put nothing else in the way of an answer.
  if (*rc::gen::arbitrary<bool>())
    for (auto& [name, tensor] : call.inputs)
      if (!is_float(tensor.dtype()))
        for (std::size_t i = 0; i < tensor.size(); ++i) tensor.set_integer(i, 0);
  const Answer answer = subject.ask(operation.name, call.parameters, call.inputs);
  if (answer.kind == Answer::Kind::unsupported) RC_DISCARD(answer.message);
  if (answer.kind == Answer::Kind::outputs)
    RC_FAIL(operation.name +
            " answered parameters that must be refused: " + call.parameters.dump());
}

bool can_be_refused(const Operation& operation) {
  return operation.refuse ||
         std::any_of(operation.parameters.begin(), operation.parameters.end(),
                     [](const ParameterSpec& spec) { return spec.is_refused_outside; });
}

}  // namespace

std::vector<Law> laws() {
  using Experiment = void (*)(Subject&, const Operation&);
  std::vector<Law> all;
  for (const Scheme* scheme : schemes())
    for (const Operation& operation : scheme->operations) {
      const auto add = [&](const char* sentence, Experiment experiment,
                           std::vector<std::string> must_reach = {}) {
        all.push_back(
            {operation.name + "/" + sentence,
             {operation.name},
             [experiment, &operation](Subject& subject) { experiment(subject, operation); },
             std::move(must_reach)});
      };
      add("the_same_call_twice_gives_the_same_bits", the_same_call_twice_gives_the_same_bits);
      add("what_was_asked_before_does_not_matter", what_was_asked_before_does_not_matter);
      add("random_calls_agree_with_the_truth", random_calls_agree_with_the_truth);
      if (can_be_refused(operation)) {
        add("what_must_be_refused_is_refused", what_must_be_refused_is_refused);
        add("a_refused_call_leaves_nothing_behind", a_refused_call_leaves_nothing_behind);
      }
      if (!operation.independent.empty()) {
        std::vector<std::string> cuts{"one at a time", "chunks"}, orders{"out of order"};
        for (const std::string& symbol : operation.independent) {
          cuts.push_back("cut along " + symbol);
          orders.push_back("reordered along " + symbol);
        }
        add("chunks_equal_the_whole", chunks_equal_the_whole, cuts);
        add("reordering_entries_reorders_the_answer", reordering_entries_reorders_the_answer,
            orders);
      }
      if (operation.may_be_batched) add("a_batch_equals_its_rows", a_batch_equals_its_rows);
      if (!takes_numbers(operation)) continue;
      add("nan_and_infinity_touch_only_what_they_enter",
          nan_and_infinity_touch_only_what_they_enter, {"some spoiled, some kept"});
      add("zeros_and_subnormals_are_numbers_like_others",
          zeros_and_subnormals_are_numbers_like_others, {"subnormal"});
    }
  return all;
}

}  // namespace posproof::properties::every_operation
