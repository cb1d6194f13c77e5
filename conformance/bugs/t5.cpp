#include "reference/t5.hpp"

#include "conformance/bugs/core/attention_steps.hpp"
#include "reference/core/registry.hpp"
#include "reference/core/truth.hpp"

namespace posproof::bugs::t5 {
namespace {

namespace truth = reference::t5;

const std::vector<std::string> kBoth{"t5.bucket", "t5.bias"};

using Bucket = std::int64_t (*)(const Parameters&, std::int64_t relative);

/// Both operations with a bucket of one's own.
Answering bucketing(Bucket bucket) {
  return [bucket](const Call& call) {
    const Parameters p = checked(call);
    Outputs<double> outputs = right(call);
    if (call.operation == "t5.bucket") {
      auto& buckets = outputs.at("buckets").integers;
      const auto& relative = call.inputs.integers("relative_positions");
      for (std::size_t i = 0; i < relative.size(); ++i)
        buckets.data()[i] = bucket(p, relative.data()[i]);
      return outputs;
    }
    const auto& q_at = call.inputs.integers("q_positions");
    const auto& k_at = call.inputs.integers("k_positions");
    const auto& table = call.inputs.real("table");
    Output<double>& bias = outputs.at("bias");
    const std::int64_t last = static_cast<std::int64_t>(table.shape(0)) - 1;
    for (std::size_t h = 0; h < table.shape(1); ++h)
      for (std::size_t i = 0; i < q_at.size(); ++i)
        for (std::size_t j = 0; j < k_at.size(); ++j) {
          const auto row = static_cast<std::size_t>(
              std::clamp<std::int64_t>(bucket(p, k_at(j) - q_at(i)), 0, last));
          bias.copy((h * q_at.size() + i) * k_at.size() + j, "table", table,
                    row * table.shape(1) + h);
        }
    return outputs;
  };
}

std::int64_t linear(const Parameters& p, std::int64_t relative) {
  const truth::Buckets b = truth::buckets(p);
  std::int64_t base = 0, n = -relative;
  if (p.flag("bidirectional")) {
    if (relative > 0) base = b.per_direction;
    n = std::abs(relative);
  }
  n = std::clamp<std::int64_t>(n, 0, b.max_distance);
  if (n < b.max_exact) return base + n;
  return base + std::min(b.per_direction - 1, b.max_exact + (n - b.max_exact) *
                                                                (b.per_direction - b.max_exact) /
                                                                (b.max_distance - b.max_exact));
}

std::int64_t directions_share(const Parameters& p, std::int64_t relative) {
  return truth::bucket(p, p.flag("bidirectional") ? -std::abs(relative) : relative);
}

std::int64_t forward_by_distance(const Parameters& p, std::int64_t relative) {
  return truth::bucket(p, p.flag("bidirectional") ? relative : -std::abs(relative));
}

std::int64_t undefined_at_0(const Parameters& p, std::int64_t relative) {
  return relative == 0 ? p.integer("num_buckets") - 1 : truth::bucket(p, relative);
}

/// A decoder with the buckets of one direction of an encoder.
std::int64_t halved_twice(const Parameters& p, std::int64_t relative) {
  if (p.flag("bidirectional")) return truth::bucket(p, relative);
  nlohmann::json both = p.given();
  both["bidirectional"] = true;
  return truth::bucket(checked_parameters(find_operation("t5.bucket"), both),
                       std::min<std::int64_t>(relative, 0));
}

std::int64_t query_minus_memory(const Parameters& p, std::int64_t relative) {
  return truth::bucket(p, -relative);
}

/// The reference's bucket, where the logarithm is made whole in another way.
template <double (*Whole)(double)>
std::int64_t made_whole(const Parameters& p, std::int64_t relative) {
  const truth::Buckets b = truth::buckets(p);
  const std::int64_t n =
      p.flag("bidirectional") ? std::abs(relative) : std::max<std::int64_t>(-relative, 0);
  if (n < b.max_exact) return truth::bucket(p, relative);
  const auto e = static_cast<double>(b.max_exact);
  const double x = static_cast<double>(b.per_direction - b.max_exact) *
                   std::log(static_cast<double>(n) / e) /
                   std::log(static_cast<double>(b.max_distance) / e);
  const std::int64_t base = p.flag("bidirectional") && relative > 0 ? b.per_direction : 0;
  return base + std::min(b.per_direction - 1, b.max_exact + static_cast<std::int64_t>(Whole(x)));
}

double to_nearest(double x) { return std::round(x); }
/// A whole number stays one, whatever its logarithm was rounded to.
double up(double x) { return std::ceil(x - 1e-12); }

/// The logarithm falls short where it should be whole.
std::int64_t one_ulp_low(const Parameters& p, std::int64_t relative) {
  const truth::Buckets b = truth::buckets(p);
  const std::int64_t found = truth::bucket(p, relative);
  const std::int64_t n = std::abs(relative),
                     base =
                         found >= b.per_direction && p.flag("bidirectional") ? b.per_direction : 0;
  if (n <= b.max_exact - 1 || n >= b.max_distance || (relative > 0 && !p.flag("bidirectional")))
    return found;
  const double whole =
      std::log(static_cast<double>(n) / static_cast<double>(b.max_exact)) /
      std::log(static_cast<double>(b.max_distance) / static_cast<double>(b.max_exact)) *
      static_cast<double>(b.per_direction - b.max_exact);
  const double nearest = std::round(whole);
  return std::fabs(whole - nearest) < 1e-12 && nearest >= 1 &&
                 found - base == b.max_exact + static_cast<std::int64_t>(nearest)
             ? found - 1
             : found;
}

Call other_directions(const Call& call) {
  return with_parameter(call, "bidirectional", !checked(call).flag("bidirectional"));
}

Outputs<double> always_128(const Call& call) {
  return right(truth::buckets(checked(call)).max_exact < 128
                   ? with_parameter(call, "max_distance", 128)
                   : call);
}

Outputs<double> none_while_decoding(const Call& call) {
  Outputs<double> outputs = right(call);
  if (call.inputs.integers("q_positions").size() >= call.inputs.integers("k_positions").size())
    return outputs;
  outputs.at("bias").values.fill(0);
  outputs.at("bias").copied_from.clear();
  return outputs;
}

}  // namespace

std::vector<BugModel> models() {
  const char* const kFar = "distances from 8 on share the wrong biases";
  return {
      model({"K-T1", "", "buckets of equal width where they grow", kFar,
             "logarithmic from half of the buckets of a direction on"},
            kBoth, bucketing(linear)),
      model({"K-T2", "one direction", "keys after the query share the buckets of those before",
             "an encoder cannot tell directions apart", "add half of the buckets for key > query"},
            kBoth, bucketing(directions_share)),
      model({"K-T2", "no maximum", "keys after the query bucketed by distance in a decoder",
             "future keys look like past ones", "max(−relative, 0) when not bidirectional"},
            kBoth, bucketing(forward_by_distance)),
      model({"K-T2", "halved", "the buckets of a decoder halved too", kFar,
             "halve num_buckets when bidirectional only"},
            kBoth, bucketing(halved_twice)),
      model({"K-T4", "", "no bias while decoding", "generation differs from a full pass",
             "take the query's row of the full bias"},
            {"t5.bias"}, none_while_decoding),
      model(
          {"K-T5", "", "log 0 cast to an integer", "a token's bias for itself is another bucket's",
           "choose the exact bucket before the cast"},
          kBoth, bucketing(undefined_at_0)),
      model({"K-T6", "", "max_distance 128 whatever the model has", kFar, "read it"}, kBoth,
            always_128),
      model({"K-T7", "", "bidirectional and not exchanged",
             "encoder and decoder read each other's buckets", "bidirectional in encoders alone"},
            kBoth, [](const Call& call) { return right(other_directions(call)); }),
      model(
          {"K-T8", "", "the logarithm one ulp low", "distances 16, 32 and 64 in the bucket before",
           "compare integer powers, or add a nudge far below the next step"},
          kBoth, bucketing(one_ulp_low)),
      model({"K-T7", "direction", "query − memory where memory − query is meant",
             "before and after are exchanged", "relative position is memory − query"},
            kBoth, bucketing(query_minus_memory)),
      model({"K-T8", "rounded", "the logarithm rounded to nearest", kFar, "truncate it"}, kBoth,
            bucketing(made_whole<to_nearest>)),
      model({"K-T8", "ceil", "the logarithm rounded up, as DeBERTa does", kFar, "truncate it"},
            kBoth, bucketing(made_whole<up>)),
  };
}

}  // namespace posproof::bugs::t5
