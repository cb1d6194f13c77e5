// The mutant values of the catalogue of bug kinds (section 1), to every digit given there, and
// values that follow from its formulas where it gives none. The right ones stand in
// reference/tests/bug_kind_values_test.cpp.
#include "conformance/bugs/core/model.hpp"
#include "fixtures/core/ask.hpp"
#include "reference/tests/published.hpp"

namespace posproof::bugs {
namespace {

using nlohmann::json;
using Values = std::vector<double>;

/// One model that is asked one question after another.
class Model {
 public:
  explicit Model(const std::string& kind, const std::string& variant = "") {
    for (const BugModel& model : all_models())
      if (model.kind == kind && model.variant == variant) answers_ = implementation_of(model);
    if (!answers_) throw std::invalid_argument("no model " + kind + ": " + variant);
  }

  Answer answer(const std::string& operation, const json& parameters, const Tensors& inputs) {
    return answers_->run({operation, parameters, inputs}, std::chrono::seconds(1));
  }
  Values of(const std::string& operation, const json& parameters, const Tensors& inputs,
            const std::string& output) {
    return answer(operation, parameters, inputs).outputs.at(output).values();
  }

  Values inv_freq(const json& parameters) {
    return of("rope.inv_freq", parameters, {}, "inv_freq");
  }
  Values cos(const json& parameters, const std::vector<std::int64_t>& at) {
    return of("rope.cos_sin", parameters, {{"positions", positions(at)}}, "cos");
  }
  Values sin(const json& parameters, const std::vector<std::int64_t>& at) {
    return of("rope.cos_sin", parameters, {{"positions", positions(at)}}, "sin");
  }
  Values apply(json parameters, const Values& x, std::int64_t position) {
    parameters["head_dim"] = x.size();
    return of(
        "rope.apply", parameters,
        {{"x", Tensor(Dtype::f64, {1, 1, x.size()}, x)}, {"positions", positions({position})}},
        "y");
  }
  Values row(const json& parameters, std::int64_t position) {
    return of("sinusoidal.table", parameters, {{"positions", positions({position})}}, "table");
  }
  /// Row r of the table holds r.
  Values rows_read(const json& parameters, std::size_t rows, const std::vector<std::int64_t>& at) {
    return of("learned.embed", parameters,
              {{"table", numbered(rows)}, {"positions", positions(at)}}, "rows");
  }
  Values shaw_rows(std::int64_t max_distance, std::int64_t query,
                   const std::vector<std::int64_t>& keys) {
    return of("shaw.key_logits", {{"max_distance", max_distance}},
              {{"q", Tensor(Dtype::f64, {1, 1, 1}, {1})},
               {"relative_keys", numbered(static_cast<std::size_t>(2 * max_distance + 1))},
               {"q_positions", positions({query})},
               {"k_positions", positions(keys)}},
              "logits");
  }
  Values buckets(const json& parameters, const std::vector<std::int64_t>& relative) {
    return of("t5.bucket", parameters, {{"relative_positions", positions(relative)}}, "buckets");
  }
  Values slopes(const json& parameters) { return of("alibi.slopes", parameters, {}, "slopes"); }
  Values bias(const json& parameters, std::int64_t query, const std::vector<std::int64_t>& keys) {
    return of("alibi.bias", parameters,
              {{"q_positions", positions({query})}, {"k_positions", positions(keys)}}, "bias");
  }

 private:
  static Tensor numbered(std::size_t rows) {
    Values numbers(rows);
    for (std::size_t r = 0; r < rows; ++r) numbers[r] = static_cast<double>(r);
    return Tensor(Dtype::f64, {rows, 1}, numbers);
  }

  std::unique_ptr<Implementation> answers_;
};

const json kTwo{{"head_dim", 2}};

json linear(double factor) {
  return {{"head_dim", 2}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", factor}}}};
}

/// A query and a key of rope, and values, one head.
Tensors attending(const Values& q, const Values& k, const Values& v,
                  const std::vector<std::int64_t>& q_at, const std::vector<std::int64_t>& k_at) {
  return {{"q", Tensor(Dtype::f64, {1, q.size() / 2, 2}, q)},
          {"k", Tensor(Dtype::f64, {1, k.size() / 2, 2}, k)},
          {"v", Tensor(Dtype::f64, {1, v.size() / 2, 2}, v)},
          {"q_positions", positions(q_at)},
          {"k_positions", positions(k_at)}};
}
const json kRope{{"scheme", {{"name", "rope"}, {"parameters", kTwo}}}, {"scale", 1}};

TEST(values, rope_layout_and_direction) {
  EXPECT_TRUE(agree(Model("K-RL1").apply({{"layout", "half"}}, {1, 2, 3, 4}, 1),
                    {"-1.14263966375", "1.92207559654", "2.95985066791", "4.02979950167"}));
  EXPECT_TRUE(agree(Model("K-RL1").apply({{"layout", "interleaved"}}, {1, 2, 3, 4}, 1),
                    {"-1.98411064856", "1.95990066750", "2.46237790241", "4.01979966833"}));
  const Values mixed = Model("K-RL5").apply({}, {1, 0, 0, 0}, 1);
  EXPECT_TRUE(agree({mixed[0], mixed[2]}, {"0.540302305868", "0.00999983333417"}));
  EXPECT_TRUE(agrees(std::hypot(mixed[0], mixed[2]), "0.540394835646"));
  EXPECT_TRUE(agrees(Model("K-RL6", "in the rotation").apply({}, {1, 0}, 1)[1], "-0.841470984808"));
  EXPECT_TRUE(agrees(Model("K-RL6", "in the table").apply({}, {1, 0}, 1)[1], "-0.841470984808"));
  EXPECT_TRUE(agrees(Model("K-RL6", "in the table").sin(kTwo, {1})[0], "-0.841470984808"));
}

/// q = [1,0] and k = [0,1] become [1,1] both: their score is 2. The other pair scores 1 with it.
TEST(values, rope_inside_attention) {
  const Values crossed =
      Model("K-RL7").of("attention", kRope,
                        attending({1, 0, 1, 0}, {0, 1, 0, 0}, {1, 0, 0, 0}, {0, 0}, {0, 0}), "out");
  EXPECT_NEAR(std::log(crossed[0] / (1 - crossed[0])), 1, 1e-14);
  EXPECT_TRUE(agree(
      Model("K-RL8").of("attention", kRope, attending({0.3, 2}, {1, 7}, {1, 0}, {1}, {1}), "out"),
      {"0.540302305868", "0.841470984808"}));
  // Ten seen, three evicted: 7 where 10 is right.
  const auto after_eviction = [](std::int64_t query) {
    return attending({1, 0.5}, Values(16, 0.7), {1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0},
                     {query}, range(3, 8));
  };
  EXPECT_EQ(Model("K-RI3").of("attention", kRope, after_eviction(10), "out"),
            Model("K-S10").of("attention", kRope, after_eviction(7), "out"));
}

TEST(values, rope_dimensions) {
  const json partial{{"head_dim", 8}, {"rotary_dim", 4}};
  EXPECT_TRUE(agrees(Model("K-RD1", "exponent").inv_freq(partial)[1], "0.1"));
  const Values partner =
      Model("K-RD1", "partner").apply({{"rotary_dim", 4}}, {0, 1, 0, 0, 0, 0, 0, 0}, 1);
  EXPECT_EQ(partner[3], 0);
  EXPECT_NE(partner[5], 0);
  const Values half{0, 0, 0, 0, 0, 0, 1, 0};
  EXPECT_NE(Model("K-RD2", "ignored").apply({{"partial_rotary_factor", 0.5}}, half, 1)[6], 1);
  EXPECT_EQ(Model("K-RD2", "applied twice").inv_freq(partial).size(), 1u);
  const Values counted{1, 2, 3, 4, 5, 6, 7, 8};
  const auto tail = [&](const char* variant) {
    const Values y = Model("K-RD4", variant).apply({{"rotary_dim", 4}}, counted, 3);
    return Values(y.begin() + 4, y.end());
  };
  EXPECT_EQ(tail("left out"), (Values{0, 0, 0, 0}));
  EXPECT_EQ(tail("packed index"), (Values{3, 3, 4, 4}));
  EXPECT_EQ(Model("K-RD6").inv_freq({{"head_dim", 5}}).size(), 3u);
}

TEST(values, rope_precision) {
  EXPECT_TRUE(agrees(Model("K-RP1").inv_freq({{"head_dim", 128}})[1], "0.8671875"));
  EXPECT_TRUE(agrees(Model("K-RP1").cos({{"head_dim", 128}}, {1000})[1], "0.994181466910"));
  EXPECT_EQ(Model("K-RP2", "bf16").cos(kTwo, {257, 259}), Model("K-S10").cos(kTwo, {256, 260}));
  EXPECT_EQ(Model("K-RP2", "f16").cos(kTwo, {2049}), Model("K-S10").cos(kTwo, {2048}));
  EXPECT_TRUE(agrees(Model("K-S10").cos(kTwo, {301})[0], "0.829326676821"));
  EXPECT_EQ(Model("K-RP3").cos(kTwo, {301}), Model("K-S10").cos(kTwo, {300}));
  const double cos = Model("K-RP4").cos(kTwo, {1})[0], sin = Model("K-RP4").sin(kTwo, {1})[0];
  EXPECT_EQ(cos, 0.5390625);
  EXPECT_EQ(sin, 0.83984375);
  EXPECT_TRUE(agrees(std::hypot(cos, sin), "0.997960872640"));
  EXPECT_EQ(Model("K-RP6").inv_freq(kTwo)[0], 6.93e-18);
}

TEST(values, rope_positions) {
  EXPECT_TRUE(agrees(Model("K-RI2", "one ahead").cos(kTwo, {5})[0], "0.960170286650"));
  EXPECT_EQ(Model("K-RI2", "from 0").cos(kTwo, {5})[0], 1);
  EXPECT_EQ(Model("K-RI4").cos(kTwo, {5, 6})[0], 1);
  Model cached("K-RI5");
  EXPECT_EQ(cached.cos(kTwo, {0})[0], 1);
  EXPECT_EQ(cached.cos(kTwo, {3})[0], 1);
  EXPECT_TRUE(agrees(Model("K-RI5").cos(kTwo, {3})[0], "-0.989992496600"));
  const Tensors twice{{"x", Tensor(Dtype::f64, {2, 1, 1, 2}, {1, 0, 1, 0})},
                      {"positions", Tensor::integers({2, 1}, {5, 5})}};
  const Values first_only = Model("K-RI6", "not turned").of("rope.apply", kTwo, twice, "y");
  EXPECT_TRUE(agree({first_only[0], first_only[2]}, {"0.283662185463", "1"}));
  EXPECT_TRUE(
      agrees(Model("K-RI6", "runs on").of("rope.apply", kTwo, twice, "y")[2], "0.960170286650"));
  EXPECT_EQ(Model("K-RI7").cos(kTwo, {4096}), Model("K-S10").cos(kTwo, {4095}));
  EXPECT_NE(Model("K-RI8").apply({{"rotary_dim", 2}}, {1, 2, 3, 4}, -4)[3], 4);
  EXPECT_EQ(Model("K-RI8").apply({{"rotary_dim", 2}}, {1, 2, 3, 4}, 4)[3], 4);
  const Values heads =
      Model("K-RI9").of("rope.apply", kTwo,
                        {{"x", Tensor(Dtype::f64, {1, 4, 2}, {1, 0, 1, 0, 1, 0, 1, 0})},
                         {"positions", positions({0})}},
                        "y");
  EXPECT_EQ(heads[0], 1);
  EXPECT_TRUE(agree({heads[2], heads[6]}, {"0.540302305868", "-0.989992496600"}));
}

TEST(values, rope_base_and_scaling) {
  const json large{{"head_dim", 128}, {"rope_theta", 500000}};
  EXPECT_TRUE(agrees(Model("K-RB1", "10000").inv_freq(large)[63], "1.15478198469e-4"));
  EXPECT_TRUE(agrees(Model("K-S10").cos(linear(4), {8})[0], "-0.416146836547"));
  EXPECT_TRUE(agrees(Model("K-RS1").cos(linear(4), {8})[0], "-0.145500033809"));
  EXPECT_EQ(Model("K-RS3").inv_freq(linear(4)), (Values{1.0 / 16}));
  EXPECT_EQ(Model("K-RS4").inv_freq(kTwo), (Values{0.5}));
  EXPECT_EQ(Model("K-RS5").inv_freq(linear(4)), (Values{4}));
  EXPECT_EQ(Model("K-RS2").inv_freq({{"head_dim", 2}, {"rope_scaling", {{"rope_type", "liner"}}}}),
            (Values{1}));
  EXPECT_TRUE(std::isnan(Model("K-NP3").of("rope.cos_sin", {{"head_dim", 4}, {"rope_theta", 0}},
                                           {{"positions", positions({1})}}, "cos")[1]));
}

TEST(values, sinusoidal) {
  const json eight{{"d_model", 8}};
  EXPECT_TRUE(agrees(Model("K-N1").row(eight, 1)[2], "0.00999983333417"));
  EXPECT_TRUE(agrees(Model("K-N2").row(eight, 1)[3], "0.999500041665"));
  EXPECT_TRUE(agrees(Model("K-N2", "doubled").row(eight, 1)[3], "0.999999500000"));
  EXPECT_TRUE(agrees(std::asin(Model("K-N3").row(eight, 1)[2]), "0.177827941004"));
  EXPECT_NEAR(std::asin(Model("K-N4").row(eight, 1)[4]), std::exp(-4.0), 1e-15);
  EXPECT_EQ(Model("K-N5").row(eight, 1)[6], std::sin(1.0));
  const Values alternating = Model("K-S10").row({{"d_model", 4}}, 1);
  EXPECT_EQ(Model("K-N6").row({{"d_model", 4}}, 1),
            (Values{alternating[0], alternating[2], alternating[1], alternating[3]}));
  const Values other = Model("K-N7").row(eight, 1);
  EXPECT_TRUE(agree({std::asin(other[2]), std::asin(other[4]), std::asin(other[6])},
                    {"0.0464158883361", "0.00215443469003", "0.0001"}));
  const json five{{"d_model", 5}, {"odd", "zero_pad"}};
  EXPECT_NE(Model("K-N9", "pad").row(five, 1)[4], 0);
  EXPECT_EQ(Model("K-N9", "accepted").row({{"d_model", 5}}, 1).size(), 5u);
  EXPECT_TRUE(agrees(Model("K-N10").row(eight, 0)[0], "0.909297426826"));
  EXPECT_EQ(Model("K-N11").row(eight, 10), Model("K-S10").row(eight, 0));
  EXPECT_EQ(Model("K-N12", "positions").row(eight, 1001), Model("K-S10").row(eight, 1000));
}

TEST(values, learned_and_shaw) {
  EXPECT_EQ(Model("K-L1").rows_read({{"offset", 2}}, 8, {0}), (Values{0}));
  EXPECT_EQ(Model("K-L2").rows_read({{"padding_idx", 3}}, 8, {0, 1, 2}), (Values{0, 1, 2}));
  EXPECT_EQ(Model("K-L3", "clamped").rows_read({{"padding_idx", 3}}, 514, {509, 510}),
            (Values{513, 513}));
  EXPECT_EQ(Model("K-L3", "wrapped").rows_read(json::object(), 8, {-1}), (Values{7}));
  EXPECT_EQ(Model("K-L4").rows_read(json::object(), 8, {5, 6}), (Values{0, 1}));
  EXPECT_EQ(Model("K-S1").shaw_rows(4, 2, {0, 1, 2}), (Values{4, 5, 6}));
  EXPECT_EQ(Model("K-S2").shaw_rows(2, 5, {0}), (Values{2}));  // −3, from the end of 5 rows
  EXPECT_EQ(Model("K-S3").shaw_rows(4, 1, {0, 1, 2}), (Values{4, 5, 6}));
  EXPECT_EQ(Model("K-S4").shaw_rows(1, 0, {1}), (Values{0}));
  EXPECT_EQ(Model("K-S8").shaw_rows(4, 2, {0, 3}), (Values{6, 5}));
  EXPECT_EQ(Model("K-S9").shaw_rows(2, 0, {2}), (Values{3}));
  // Query i scores 3i + c + 1 with the offset c − 2, as in the catalogue's square.
  const Tensors square{
      {"q", Tensor(Dtype::f64, {1, 3, 2}, {0, 1, 3, 1, 6, 1})},
      {"relative_keys", Tensor(Dtype::f64, {5, 2}, {1, 1, 1, 2, 1, 3, 1, 4, 1, 5})},
      {"q_positions", positions({0, 1, 2})},
      {"k_positions", positions({0, 1, 2})}};
  const json clip{{"max_distance", 2}};
  EXPECT_EQ(Model("K-S5").of("shaw.key_logits", clip, square, "logits"),
            (Values{0, 1, 2, 3, 0, 4, 5, 6, 0}));
  EXPECT_EQ(Model("K-S6").of("shaw.key_logits", clip, square, "logits"),
            (Values{3, 0, 4, 5, 6, 0, 7, 8, 9}));
}

TEST(values, t5) {
  const json decoder{{"bidirectional", false}};
  EXPECT_EQ(Model("K-T1").buckets(json::object(), {-11, 11, -40}), (Values{8, 24, 10}));
  EXPECT_EQ(Model("K-T2", "one direction").buckets(json::object(), {12, -12}), (Values{9, 9}));
  EXPECT_EQ(Model("K-T2", "no maximum").buckets(decoder, {5}), (Values{5}));
  EXPECT_EQ(Model("K-T2", "halved").buckets(decoder, {-20}), (Values{10}));
  EXPECT_EQ(Model("K-T5").buckets(json::object(), {0}), (Values{31}));
  EXPECT_EQ(Model("K-T6").buckets({{"max_distance", 256}, {"bidirectional", false}}, {-100}),
            (Values{30}));
  EXPECT_EQ(Model("K-T6").buckets({{"max_distance", 256}}, {-100}), (Values{15}));
  EXPECT_EQ(Model("K-T7").buckets(json::object(), {1}), (Values{0}));
  EXPECT_EQ(Model("K-T7").buckets(decoder, {1}), (Values{17}));
  EXPECT_EQ(Model("K-T8").buckets(json::object(), {-16, -32, -64}), (Values{9, 11, 13}));
  EXPECT_EQ(Model("K-S10").buckets(json::object(), {-16, -32, -64}), (Values{10, 12, 14}));
}

TEST(values, alibi) {
  const Values geometric = Model("K-A1").slopes({{"num_heads", 12}});
  EXPECT_TRUE(agree({geometric[0], geometric[1]}, {"0.629960525", "0.396850263"}));
  const Values from_0 = Model("K-A2").slopes({{"num_heads", 8}});
  EXPECT_EQ((Values{from_0[0], from_0[7]}), (Values{1, 0.0078125}));
  const json eight{{"num_heads", 8}};
  EXPECT_EQ(Model("K-A3").bias(eight, 3, {0})[0], 1.5);
  EXPECT_EQ(Model("K-A4").bias(eight, 3, {0, 2})[0], Model("K-A4").bias(eight, 3, {0, 2})[1]);
  EXPECT_EQ(Model("K-A5").bias(eight, 3, {0, 2})[1], 1);
  EXPECT_EQ(Model("K-S10").bias({{"num_heads", 4}}, 5, range(0, 6))[0], -1.25);
  EXPECT_EQ(Model("K-A6").bias({{"num_heads", 4}}, 5, range(0, 6)), Values(24, 0.0));
  const json shard{{"num_heads", 8}, {"head_offset", 4}, {"local_heads", 4}};
  EXPECT_EQ(Model("K-S10").bias(shard, 1, {0})[0], -0x1p-5);
  EXPECT_EQ(Model("K-A7", "from head 0").bias(shard, 1, {0})[0], -0x1p-1);
  EXPECT_EQ(Model("K-A7", "as a whole").bias(shard, 1, {0})[0], -0x1p-2);
  const json twelve{{"num_heads", 12}};
  EXPECT_TRUE(agrees(-Model("K-S10").bias(twelve, 1001, {1000})[8], "0.707106781187"));
  EXPECT_EQ(Model("K-A8").bias({{"num_heads", 12}, {"form", "key"}}, 0, {1000, 1001})[16], 708);
  const Values half = Model("K-A11").slopes({{"num_heads", 12}, {"dtype", "f16"}});
  EXPECT_EQ(half[7], 0x1p-8);
  EXPECT_EQ(half[8], 0);
  EXPECT_EQ(Model("K-A12").slopes({{"num_heads", 8}, {"bias_max", 16}})[0], 0.5);
}

/// D = 64: a bias of −8 acts as −1.
TEST(values, bias_under_the_scale) {
  const Tensor zeros(Dtype::f64, {1, 1, 64});
  Tensor values(Dtype::f64, {1, 2, 64});
  values.set(0, 1);
  const Values out = Model("K-A9").of(
      "attention",
      {{"scheme", {{"name", "alibi"}, {"parameters", {{"num_heads", 1}, {"bias_max", 3}}}}}},
      {{"q", zeros},
       {"k", Tensor(Dtype::f64, {1, 2, 64})},
       {"v", values},
       {"q_positions", positions({64})},
       {"k_positions", positions({0, 64})}},
      "out");
  EXPECT_NEAR(std::log(out[0] / (1 - out[0])), -1, 1e-14);
}

}  // namespace
}  // namespace posproof::bugs
