// The right values of the catalogue of bug kinds (section 1), which were computed without this
// code, to every digit given there. A name in a comment is the kind that shows the value.
#include <algorithm>

#include "reference/tests/published.hpp"

namespace posproof {
namespace {

using nlohmann::json;
using Values = std::vector<double>;

Values cos_of(const json& parameters, std::int64_t position) {
  return exact("rope.cos_sin", parameters, {{"positions", at({position})}}, "cos");
}

Values inv_freq(const json& parameters) {
  return exact("rope.inv_freq", parameters, {}, "inv_freq");
}

json linear(int head_dim, double factor) {
  return {{"head_dim", head_dim}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", factor}}}};
}

Values rotated(json parameters, const Values& x, std::int64_t position) {
  parameters["head_dim"] = x.size();
  return exact("rope.apply", parameters,
               {{"x", Tensor(Dtype::f64, {1, 1, x.size()}, x)}, {"positions", at({position})}},
               "y");
}

Values row(const json& parameters, std::int64_t position) {
  return exact("sinusoidal.table", parameters, {{"positions", at({position})}}, "table");
}

Values buckets(const json& parameters, const std::vector<std::int64_t>& relative) {
  return exact("t5.bucket", parameters, {{"relative_positions", at(relative)}}, "buckets");
}

Values bias(const json& parameters, const std::vector<std::int64_t>& q_positions,
            const std::vector<std::int64_t>& k_positions) {
  return exact("alibi.bias", parameters,
               {{"q_positions", at(q_positions)}, {"k_positions", at(k_positions)}}, "bias");
}

/// Row r of the table holds r, so the answer says which row was read.
Values rows_read(const json& parameters, std::size_t rows,
                 const std::vector<std::int64_t>& positions) {
  Values numbers(rows);
  for (std::size_t r = 0; r < rows; ++r) numbers[r] = static_cast<double>(r);
  return exact("learned.embed", parameters,
               {{"table", Tensor(Dtype::f64, {rows, 1}, numbers)}, {"positions", at(positions)}},
               "rows");
}

/// The same of Shaw's key term, for one query.
Values shaw_rows(std::int64_t max_distance, const char* sign, std::int64_t q,
                 const std::vector<std::int64_t>& k) {
  const auto rows = static_cast<std::size_t>(2 * max_distance + 1);
  Values numbers(rows);
  for (std::size_t r = 0; r < rows; ++r) numbers[r] = static_cast<double>(r);
  return exact("shaw.key_logits", {{"max_distance", max_distance}, {"sign", sign}},
               {{"q", Tensor(Dtype::f64, {1, 1, 1}, {1})},
                {"relative_keys", Tensor(Dtype::f64, {rows, 1}, numbers)},
                {"q_positions", at({q})},
                {"k_positions", at(k)}},
               "logits");
}

TEST(bug_kinds, rope_layout_and_direction) {
  const Values x{1, 2, 3, 4};
  EXPECT_TRUE(agree(rotated({{"layout", "interleaved"}}, x, 1),  // K-RL1
                    {"-1.14263966375", "1.92207559654", "2.95985066791", "4.02979950167"}));
  EXPECT_TRUE(agree(rotated({{"layout", "half"}}, x, 1),
                    {"-1.98411064856", "1.95990066750", "2.46237790241", "4.01979966833"}));
  const Values first_lane = rotated({{"layout", "half"}}, {1, 0, 0, 0}, 1);  // K-RL5
  EXPECT_TRUE(agree({first_lane[0], first_lane[2]}, {"0.540302305868", "0.841470984808"}));
  EXPECT_EQ(rotated(json::object(), {1, 0}, 0), (Values{1, 0}));  // K-RL7, K-RI9
  EXPECT_EQ(rotated(json::object(), {0, 1}, 0), (Values{0, 1}));
}

/// K-RL6: the score of q = [1,0] and k = [0,1] one position before is +0.84…, read from the weights
/// of two keys of which the other scores 0. K-RL8: v is never rotated.
TEST(bug_kinds, rope_inside_attention) {
  const json rope{{"scheme", {{"name", "rope"}, {"parameters", {{"head_dim", 2}}}}}, {"scale", 1}};
  for (std::int64_t position : {0, 2, 1000}) {
    const double weight = exact("attention", rope,
                                {{"q", Tensor(Dtype::f64, {1, 1, 2}, {1, 0})},
                                 {"k", Tensor(Dtype::f64, {1, 2, 2}, {0, 1, 0, 0})},
                                 {"v", Tensor(Dtype::f64, {1, 2, 2}, {1, 0, 0, 0})},
                                 {"q_positions", at({position + 1})},
                                 {"k_positions", at({position, position})}},
                                "out")[0];
    EXPECT_TRUE(agrees(std::log(weight / (1 - weight)), "0.841470984808"));
  }
  EXPECT_EQ(exact("attention", rope,
                  {{"q", Tensor(Dtype::f64, {1, 1, 2}, {0.3, 2})},
                   {"k", Tensor(Dtype::f64, {1, 1, 2}, {1, 7})},
                   {"v", Tensor(Dtype::f64, {1, 1, 2}, {1, 0})},
                   {"q_positions", at({1})},
                   {"k_positions", at({1})}},
                  "out"),
            (Values{1, 0}));
}

TEST(bug_kinds, rope_dimensions) {
  EXPECT_TRUE(agrees(inv_freq({{"head_dim", 8}, {"rotary_dim", 4}})[1], "0.01"));  // K-RD1
  const Values lane_1 = rotated({{"rotary_dim", 4}}, {0, 1, 0, 0, 0, 0, 0, 0}, 1);
  EXPECT_EQ(lane_1[1], cos_of({{"head_dim", 4}}, 1)[1]);
  EXPECT_NE(lane_1[3], 0);
  EXPECT_EQ(lane_1[5], 0);
  EXPECT_EQ(rotated({{"partial_rotary_factor", 0.5}}, {0, 0, 0, 0, 0, 0, 1, 0}, 1)[6], 1);  // K-RD2
  const Values tail = rotated({{"rotary_dim", 4}}, {1, 2, 3, 4, 5, 6, 7, 8}, 3);            // K-RD4
  EXPECT_EQ(Values(tail.begin() + 4, tail.end()), (Values{5, 6, 7, 8}));
  EXPECT_TRUE(agrees(inv_freq({{"head_dim", 256}})[1], "0.930572041"));  // K-RD5
  EXPECT_TRUE(agrees(inv_freq({{"head_dim", 192}})[1], "0.908517576"));
  EXPECT_THROW(inv_freq({{"head_dim", 5}}), Refused);                      // K-RD6
  EXPECT_THROW(inv_freq({{"head_dim", 64}, {"rope_theta", 0}}), Refused);  // K-NP3
}

TEST(bug_kinds, rope_precision) {
  const json width{{"head_dim", 128}};
  EXPECT_TRUE(agrees(inv_freq(width)[1], "0.865964323360"));  // K-RP1
  EXPECT_TRUE(agrees(cos_of(width, 1000)[1], "0.439953862702"));
  EXPECT_EQ(rounded("rope.inv_freq", {{"head_dim", 128}, {"dtype", "bf16"}}, {}, "inv_freq")[1],
            0.8671875);
  const auto kept = [](Dtype dtype, double position) {
    return round_to(position, format_of(dtype));
  };
  EXPECT_EQ(kept(Dtype::bf16, 257), 256);  // K-RP2
  EXPECT_EQ(kept(Dtype::bf16, 259), 260);
  EXPECT_EQ(kept(Dtype::f16, 2049), 2048);
  EXPECT_EQ(kept(Dtype::f32, 16777217), 16777216);
  EXPECT_EQ(kept(Dtype::bf16, 301), 300);                        // K-RP3
  EXPECT_EQ(kept(Dtype::bf16, 1001), 1000);                      // K-N12
  EXPECT_TRUE(agrees(cos_of(width, 301)[0], "0.829326676821"));  // K-RP3
  const json bf16{{"head_dim", 2}, {"dtype", "bf16"}};           // K-RP4
  const double cos = rounded("rope.cos_sin", bf16, {{"positions", at({1})}}, "cos")[0];
  const double sin = rounded("rope.cos_sin", bf16, {{"positions", at({1})}}, "sin")[0];
  EXPECT_EQ(cos, 0.5390625);
  EXPECT_EQ(sin, 0.83984375);
  EXPECT_TRUE(agrees(std::hypot(cos, sin), "0.997960872640"));
  EXPECT_EQ(inv_freq(width)[0], 1);  // K-RP6
}

/// K-RP9 and D9: how far the recipes lie from the truth, which others measured on ggml's CPU code
/// (1.1e-2 at pair 8, 7.8e-2 at position 10^6) and computed for one f32 product (3.9e-3).
TEST(bug_kinds, recipes_are_as_far_from_the_truth_as_the_code_they_stand_for) {
  const auto farthest = [](Recipe recipe, std::int64_t position) {
    const json width{{"head_dim", 128}};
    const Tensors inputs{{"positions", at({position})}};
    const Values cos = exact("rope.cos_sin", width, inputs, "cos");
    const Values sin = exact("rope.cos_sin", width, inputs, "sin");
    const Values rough_cos = exact("rope.cos_sin", width, inputs, "cos", recipe);
    const Values rough_sin = exact("rope.cos_sin", width, inputs, "sin", recipe);
    std::pair<double, std::size_t> worst{0, 0};
    for (std::size_t i = 0; i < 64; ++i)
      worst = std::max(worst, {std::hypot(rough_cos[i] - cos[i], rough_sin[i] - sin[i]), i});
    return worst;
  };
  EXPECT_TRUE(agrees(farthest(Recipe::ggml_f32_chain, 131072).first, "1.1e-2"));
  EXPECT_EQ(farthest(Recipe::ggml_f32_chain, 131072).second, 8u);
  EXPECT_TRUE(agrees(farthest(Recipe::ggml_f32_chain, 1000000).first, "7.8e-2"));
  EXPECT_TRUE(agrees(farthest(Recipe::hf_f32, 131072).first, "3.9e-3"));
}

TEST(bug_kinds, rope_positions_base_and_scaling) {
  const json narrow{{"head_dim", 2}};
  EXPECT_TRUE(agrees(cos_of(narrow, 5)[0], "0.283662185463"));  // K-RI2, K-RI4
  EXPECT_TRUE(agrees(cos_of(narrow, 6)[0], "0.960170286650"));
  EXPECT_TRUE(agrees(cos_of(narrow, 3)[0], "-0.989992496600"));  // K-RI5
  EXPECT_EQ(cos_of(narrow, 0)[0], 1);
  EXPECT_TRUE(agrees(inv_freq({{"head_dim", 128}})[63], "1.15478198469e-4"));  // K-RB1
  const Values large = inv_freq({{"head_dim", 128}, {"rope_theta", 500000}});
  EXPECT_TRUE(agrees(large[63], "2.45514079113e-6"));
  EXPECT_TRUE(agrees(large[35], "7.64496988317e-4"));                  // K-LL1, unscaled
  EXPECT_EQ(cos_of(linear(2, 8), 8)[0], cos_of(narrow, 1)[0]);         // K-RB3
  EXPECT_TRUE(agrees(cos_of(linear(2, 4), 8)[0], "-0.416146836547"));  // K-RS1
  EXPECT_TRUE(agrees(cos_of(narrow, 8)[0], "-0.145500033809"));
  EXPECT_TRUE(agrees(inv_freq(linear(64, 4))[31], "3.33380358041e-5"));  // K-Y2, interpolated
}

/// K-RI6: the second row of a batch is rotated as the first, by positions of its own.
TEST(bug_kinds, rope_batches) {
  const Values batch = exact("rope.apply", {{"head_dim", 2}},
                             {{"x", Tensor(Dtype::f64, {3, 1, 1, 2}, {1, 0, 1, 0, 1, 0})},
                              {"positions", Tensor::integers({3, 1}, {5, 5, 6})}},
                             "y");
  EXPECT_TRUE(agree({batch[0], batch[2], batch[4]},
                    {"0.283662185463", "0.283662185463", "0.960170286650"}));
}

TEST(bug_kinds, sinusoidal) {
  const json narrow{{"d_model", 8}};
  EXPECT_TRUE(agrees(row(narrow, 1)[2], "0.0998334166468"));  // K-N1
  EXPECT_TRUE(agrees(row(narrow, 1)[3], "0.995004165278"));   // K-N2
  EXPECT_TRUE(
      agrees(std::asin(row({{"d_model", 8}, {"base", 1000}}, 1)[2]), "0.177827941004"));  // K-N3
  const Values alternating = row({{"d_model", 4}}, 1);                                    // K-N6
  const Values concat = row({{"d_model", 4}, {"layout", "concat"}}, 1);
  EXPECT_EQ(concat, (Values{alternating[0], alternating[2], alternating[1], alternating[3]}));
  EXPECT_EQ(row({{"d_model", 4}, {"layout", "concat_cos_first"}}, 1),
            (Values{alternating[1], alternating[3], alternating[0], alternating[2]}));
  EXPECT_TRUE(agrees(alternating[2], "0.00999983333417"));  // K-N1
  Values frequencies;                                       // K-N7
  for (std::size_t i = 0; i < 4; ++i)
    frequencies.push_back(
        std::asin(row({{"d_model", 8}, {"denominator", "half_minus_one"}}, 1)[2 * i]));
  EXPECT_TRUE(agree({frequencies.begin() + 1, frequencies.end()},
                    {"0.0464158883361", "0.00215443469003", "0.0001"}));
  EXPECT_EQ(row({{"d_model", 5}, {"odd", "zero_pad"}}, 3)[4], 0);      // K-N9
  EXPECT_TRUE(agrees(row({{"d_model", 4}}, 2)[0], "0.909297426826"));  // K-N10
}

TEST(bug_kinds, learned_rows) {
  EXPECT_EQ(rows_read({{"offset", 2}}, 12, {0}), Values{2});                      // K-L1
  EXPECT_EQ(rows_read({{"padding_idx", 3}}, 12, {0, 1, 2}), (Values{4, 5, 6}));   // K-L2
  for (const auto& [padding, usable] : {std::pair{3, 510}, std::pair{1, 512}}) {  // K-L3
    EXPECT_EQ(rows_read({{"padding_idx", padding}}, 514, {usable - 1}), Values{513});
    EXPECT_THROW(rows_read({{"padding_idx", padding}}, 514, {usable}), Refused);
  }
}

TEST(bug_kinds, shaw_rows) {
  EXPECT_EQ(shaw_rows(4, "k-q", 2, {0, 1, 2}), (Values{2, 3, 4}));  // K-S1
  EXPECT_EQ(shaw_rows(2, "k-q", 5, {0}), Values{0});                // K-S2
  EXPECT_EQ(shaw_rows(4, "k-q", 0, {1}), Values{4 + 1});            // K-S4
  EXPECT_EQ(shaw_rows(4, "q-k", 0, {1}), Values{4 - 1});
  EXPECT_EQ(shaw_rows(2, "k-q", 0, {2}), Values{4});  // K-S9
}

TEST(bug_kinds, t5_buckets) {
  const json causal{{"bidirectional", false}};
  EXPECT_EQ(buckets(json::object(), {-11, -12, 12, 0, 1}),
            (Values{8, 9, 25, 0, 17}));  // K-T2, 5, 7
  EXPECT_EQ(buckets(causal, {-20, 5, 1}), (Values{17, 0, 0}));
  const json far{{"max_distance", 256}};  // K-T6
  EXPECT_EQ(buckets(far, {-100}), Values{13});
  EXPECT_EQ(buckets(json::object(), {-100}), Values{15});
  const json far_causal{{"max_distance", 256}, {"bidirectional", false}};
  EXPECT_EQ(buckets(far_causal, {-100}), Values{26});
  EXPECT_EQ(buckets(causal, {-100}), Values{30});
  EXPECT_EQ(buckets(json::object(), {-16, -32, -64}), (Values{10, 12, 14}));  // K-T8
  EXPECT_EQ(buckets(far_causal, {-32, -64, -128}), (Values{20, 24, 28}));
}

TEST(bug_kinds, alibi) {
  const Values geometric =
      exact("alibi.slopes", {{"num_heads", 12}, {"rule", "geometric"}}, {}, "slopes");
  EXPECT_TRUE(agrees(geometric[0], "0.629960525"));  // K-A1
  EXPECT_TRUE(agrees(geometric[1], "0.396850263"));
  EXPECT_EQ(bias({{"num_heads", 8}}, {3}, {0})[0], -1.5);  // K-A3
  const Values row_of_4 = bias({{"num_heads", 4}}, {5}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(Values(row_of_4.begin(), row_of_4.begin() + 6),  // K-A6
            (Values{-1.25, -1, -0.75, -0.5, -0.25, 0}));
  EXPECT_EQ(bias({{"num_heads", 8}, {"head_offset", 4}, {"local_heads", 4}}, {1}, {0})[0],  // K-A7
            -std::ldexp(1, -5));
  const Values neighbours = bias({{"num_heads", 12}, {"form", "key"}}, {0}, {1000, 1001});  // K-A8
  EXPECT_TRUE(agrees(neighbours[17] - neighbours[16], "0.707106781187"));
  const Tensors far{{"q_positions", at({0})}, {"k_positions", at({1000, 1001})}};
  const Values coarse =
      rounded("alibi.bias", {{"num_heads", 12}, {"form", "key"}, {"dtype", "bf16"}}, far, "bias");
  EXPECT_EQ((Values{coarse[16], coarse[17]}), (Values{708, 708}));
  const Values steep = exact("alibi.slopes", {{"num_heads", 8}, {"bias_max", 16}}, {}, "slopes");
  EXPECT_TRUE(agree({steep[0], steep[7]}, {"0.25", "1.52588e-5"}));  // K-A12
}

}  // namespace
}  // namespace posproof
