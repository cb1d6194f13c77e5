#include <boost/multiprecision/cpp_int.hpp>

#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"

namespace posproof::properties::t5 {
namespace {

using nlohmann::json;

/// Relative positions reach twice as far as positions.
constexpr std::int64_t kFar = (std::int64_t{1} << 32) - 1;

struct Bucketing {
  json parameters;
  std::int64_t buckets, max_distance;
  bool bidirectional;

  std::int64_t per_direction() const { return bidirectional ? buckets / 2 : buckets; }
};

Bucketing drawn_bucketing() {
  Bucketing drawn{
      {}, *one_of(std::vector<std::int64_t>{32, 4, 6, 9, 64, 320}), 0, *rc::gen::arbitrary<bool>()};
  drawn.max_distance =
      drawn.per_direction() / 2 + *one_of(std::vector<std::int64_t>{1, 3, 50, 900});
  drawn.parameters = {{"num_buckets", drawn.buckets},
                      {"max_distance", drawn.max_distance},
                      {"bidirectional", drawn.bidirectional}};
  return drawn;
}

std::vector<std::int64_t> buckets(Subject& subject, const Bucketing& bucketing,
                                  const std::vector<std::int64_t>& relative) {
  const Measured measured =
      subject
          .measure("t5.bucket", bucketing.parameters, {{"relative_positions", integers(relative)}})
          .at("buckets");
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < measured.got.size(); ++i) values.push_back(measured.got.integer(i));
  return values;
}

/// Backwards is where both forms have buckets.
std::int64_t drawn_direction(const Bucketing& bucketing) {
  return bucketing.bidirectional && *rc::gen::arbitrary<bool>() ? 1 : -1;
}

void buckets_stay_in_range(Subject& subject) {
  const Bucketing bucketing = drawn_bucketing();
  for (std::int64_t bucket : buckets(subject, bucketing, *position_lists(6, kFar))) {
    RC_ASSERT(bucket >= 0);
    RC_ASSERT(bucket < bucketing.buckets);
  }
}

void buckets_never_fall_with_distance(Subject& subject) {
  const Bucketing bucketing = drawn_bucketing();
  const std::int64_t direction = drawn_direction(bucketing), m = bucketing.max_distance;
  const std::int64_t near = *between(1, m + 2), step = std::abs(*positions(m));
  const auto found = buckets(subject, bucketing,
                             {direction * near, direction * (near + 1), direction * (near + step)});
  RC_ASSERT(found[0] <= found[1]);
  RC_ASSERT(found[0] <= found[2]);
  RC_CLASSIFY(found[0] < found[1] && near > bucketing.per_direction() / 2,
              "a step in the logarithm");
}

/// Half of the buckets of a direction hold one distance each.
void near_distances_have_a_bucket_each(Subject& subject) {
  const Bucketing bucketing = drawn_bucketing();
  const std::int64_t direction = drawn_direction(bucketing);
  const std::int64_t exact = bucketing.per_direction() / 2, n = *between(0, exact - 1);
  const std::int64_t base = direction == 1 && n > 0 ? bucketing.per_direction() : 0;
  RC_ASSERT(buckets(subject, bucketing, {direction * n})[0] == base + n);
}

using Integer = boost::multiprecision::cpp_int;

/// Where the logarithm puts the begin of each bucket: bucket e + j holds the distances n with
/// (n/e)^m >= (M/e)^j, where e buckets hold one distance each and m = (buckets − e) reach up to M.
class Begins {
 public:
  explicit Begins(const Bucketing& bucketing)
      : exact_(bucketing.per_direction() / 2),
        max_distance_(bucketing.max_distance),
        ranges_(static_cast<unsigned>(bucketing.per_direction() - exact_)) {}

  /// Less than, equal to, or more than 0 as n lies before, at, or behind the begin of e + j.
  int compared(std::int64_t n, unsigned j) const {
    const Integer power = pow(Integer(n), ranges_);
    return power.compare(pow(Integer(max_distance_), j) * pow(Integer(exact_), ranges_ - j));
  }

  /// The first distance of bucket e + j, or of those behind it that begin there too.
  std::int64_t first_of(unsigned j) const {
    std::int64_t before = exact_ - 1, first = max_distance_;
    while (first - before > 1) {
      const std::int64_t middle = before + (first - before) / 2;
      (compared(middle, j) < 0 ? before : first) = middle;
    }
    return first;
  }

  std::int64_t bucket_of(std::int64_t n) const {
    if (n < exact_) return n;
    unsigned j = 0;
    while (j + 1 < ranges_ && compared(n, j + 1) >= 0) ++j;
    return exact_ + j;
  }

 private:
  std::int64_t exact_, max_distance_;
  unsigned ranges_;
};

/// A configuration and a step j of its logarithm.
struct Step {
  Bucketing bucketing;
  unsigned j;
};

/// Where logarithms in floating point go wrong: at begins that are whole numbers, of which
/// M = e·b^g has g − 1, and far out, where whole numbers lie close together.
Step drawn_step() {
  Bucketing bucketing{{}, *between(6, 320), 0, *rc::gen::arbitrary<bool>()};
  const std::int64_t exact = bucketing.per_direction() / 2, m = bucketing.per_direction() - exact;
  std::int64_t parts = *between(1, 12), base = *one_of(std::vector<std::int64_t>{2, 3, 5, 10});
  while (m % parts != 0) --parts;
  bucketing.max_distance = exact;
  for (std::int64_t i = 0; i < parts && bucketing.max_distance < 1 << 27; ++i)
    bucketing.max_distance *= base;
  std::int64_t j = *between(1, m - 1);
  if (parts > 1)
    j = std::max<std::int64_t>(1, j * parts / m) * (m / parts);
  else
    bucketing.max_distance = exact + *one_of(std::vector<std::int64_t>{1, 50, 1000003, 1000000007});
  bucketing.parameters = {{"num_buckets", bucketing.buckets},
                          {"max_distance", bucketing.max_distance},
                          {"bidirectional", bucketing.bidirectional}};
  return {bucketing, static_cast<unsigned>(j)};
}

void each_bucket_begins_where_integer_powers_say(Subject& subject) {
  const Step step = drawn_step();
  const Begins begins(step.bucketing);
  const std::int64_t first = begins.first_of(step.j), direction = drawn_direction(step.bucketing);
  const std::int64_t base = direction == 1 ? step.bucketing.per_direction() : 0;
  const auto found = buckets(subject, step.bucketing, {direction * first, direction * (first - 1)});
  RC_ASSERT(found[0] == base + begins.bucket_of(first));
  RC_ASSERT(found[1] == (first > 1 ? base + begins.bucket_of(first - 1) : 0));
  RC_CLASSIFY(begins.compared(first, step.j) == 0, "begins at a whole number");
  RC_CLASSIFY(begins.compared(first, step.j) > 0, "begins between two");
}

void buckets_saturate_at_max_distance(Subject& subject) {
  const Bucketing bucketing = drawn_bucketing();
  const std::int64_t direction = drawn_direction(bucketing), m = bucketing.max_distance;
  const std::int64_t beyond = std::abs(*positions(kFar - m));
  const std::int64_t last = (direction == 1 ? 2 : 1) * bucketing.per_direction() - 1;
  const auto found = buckets(subject, bucketing, {direction * m, direction * (m + beyond)});
  RC_ASSERT(found[0] == last);
  RC_ASSERT(found[1] == last);
  RC_CLASSIFY(beyond > 0, "beyond");
}

/// Forward offsets: the upper half when bidirectional, the bucket of 0 when not.
void directions_mirror_each_other(Subject& subject) {
  const Bucketing bucketing = drawn_bucketing();
  const std::int64_t n = std::abs(*positions(kFar)) + 1;
  const auto found = buckets(subject, bucketing, {-n, n, 0});
  RC_ASSERT(found[2] == 0);
  RC_ASSERT(found[1] == (bucketing.bidirectional ? found[0] + bucketing.per_direction() : 0));
  RC_CLASSIFY(bucketing.bidirectional, "bidirectional");
  RC_CLASSIFY(!bucketing.bidirectional, "one direction");
}

/// A table whose entries name their bucket and head: the bias is the entry of the bucket of key −
/// query, to the bit.
void bias_is_the_entry_of_the_bucket(Subject& subject) {
  const Bucketing bucketing = drawn_bucketing();
  const auto rows = static_cast<std::size_t>(bucketing.buckets), heads = *count_between(1, 3);
  Tensor table(*one_of(std::vector<Dtype>{Dtype::f64, Dtype::f32, Dtype::f16}), {rows, heads});
  for (std::size_t i = 0; i < table.size(); ++i) table.set(i, static_cast<double>(i));
  const std::vector<std::int64_t> queries = *position_lists(2, 2000),
                                  keys = *position_lists(2, 2000);
  std::vector<std::int64_t> relative;
  for (std::int64_t query : queries)
    for (std::int64_t key : keys) relative.push_back(key - query);
  const auto bucket = buckets(subject, bucketing, relative);
  const Measured bias = subject
                            .measure("t5.bias", bucketing.parameters,
                                     {{"table", table},
                                      {"q_positions", integers(queries)},
                                      {"k_positions", integers(keys)}})
                            .at("bias");
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < relative.size(); ++i)
      RC_ASSERT(bias.got.value(h * relative.size() + i) ==
                table.value(static_cast<std::size_t>(bucket[i]) * heads + h));
  RC_CLASSIFY(bucket[0] != bucket[1] && heads > 1, "several buckets and heads");
}

}  // namespace

std::vector<Law> laws() {
  const std::vector<std::string> bucket{"t5.bucket"};
  return {
      {"t5/buckets_stay_in_range", bucket, buckets_stay_in_range},
      {"t5/buckets_never_fall_with_distance",
       bucket,
       buckets_never_fall_with_distance,
       {"a step in the logarithm"}},
      {"t5/near_distances_have_a_bucket_each", bucket, near_distances_have_a_bucket_each},
      {"t5/each_bucket_begins_where_integer_powers_say",
       bucket,
       each_bucket_begins_where_integer_powers_say,
       {"begins at a whole number", "begins between two"}},
      {"t5/buckets_saturate_at_max_distance", bucket, buckets_saturate_at_max_distance, {"beyond"}},
      {"t5/directions_mirror_each_other",
       bucket,
       directions_mirror_each_other,
       {"bidirectional", "one direction"}},
      {"t5/bias_is_the_entry_of_the_bucket",
       {"t5.bucket", "t5.bias"},
       bias_is_the_entry_of_the_bucket,
       {"several buckets and heads"}}};
}

}  // namespace posproof::properties::t5
