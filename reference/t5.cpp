#include "reference/t5.hpp"

namespace posproof::reference::t5 {
namespace {

void refuse(const Parameters& p) {
  const Buckets b = buckets(p);
  if (b.max_exact < 1)
    throw Refused("num_buckets: found " + std::to_string(p.integer("num_buckets")) +
                  ", allowed is >= " + (p.flag("bidirectional") ? "4 when bidirectional" : "2"));
  if (b.max_distance <= b.max_exact)
    throw Refused("max_distance: found " + std::to_string(b.max_distance) +
                  ", allowed is more than the exact buckets, " + std::to_string(b.max_exact));
}

}  // namespace

Scheme scheme() {
  using Kind = InputSpec::Kind;
  Operation buckets_of;
  buckets_of.name = "t5.bucket";
  buckets_of.summary = "Bucket of a relative position (memory − query).";
  buckets_of.source = "Raffel et al. 2019, arXiv:1910.10683, section 2.1";
  buckets_of.parameters = {
      integer("num_buckets", 32).must_be_at_least(1).must_be_at_most(1024).refused_outside(),
      integer("max_distance", 128).must_be_at_least(1).refused_outside(),
      boolean("bidirectional", true)};
  buckets_of.inputs = [](const Parameters&) {
    return std::vector<InputSpec>{{"relative_positions", Kind::integer, {"..."}}};
  };
  buckets_of.independent = {"..."};
  buckets_of.outputs = {{"buckets", {"..."}, true}};
  buckets_of.refuse = refuse;
  buckets_of.has_phase = [](const Parameters&) { return false; };
  buckets_of.formula = in_every_arithmetic(Bucket{});

  Operation bias = buckets_of;
  bias.name = "t5.bias";
  bias.summary = "Learned bias of the bucket, per head, added to the scores.";
  bias.inputs = [](const Parameters&) {
    return std::vector<InputSpec>{{"q_positions", Kind::position, {"Lq"}},
                                  {"k_positions", Kind::position, {"Lk"}},
                                  {"table", Kind::real, {"num_buckets", "H"}}};
  };
  bias.independent = {"H", "Lq", "Lk"};
  bias.outputs = {{"bias", {"H", "Lq", "Lk"}}};
  bias.dims = [](const Parameters& p) {
    return Dims{{"num_buckets", static_cast<std::size_t>(p.integer("num_buckets"))}};
  };
  bias.formula = in_every_arithmetic(Bias{});

  Scheme t5{"t5",
            "T5 relative position bias",
            "Raffel et al. 2019, arXiv:1910.10683",
            {buckets_of, bias}};
  t5.acts_in_attention = true;
  t5.attention.bias = "t5.bias";
  return t5;
}

}  // namespace posproof::reference::t5
