// Values that other people published, each with its source. "Agrees" means to every digit given.
#include "reference/tests/published.hpp"

namespace posproof {
namespace {

using nlohmann::json;
using Values = std::vector<double>;
using Digits = std::vector<std::string>;

Values buckets(const json& parameters, const std::vector<std::int64_t>& relative) {
  return exact("t5.bucket", parameters, {{"relative_positions", at(relative)}}, "buckets");
}

Values table(const json& parameters, const std::vector<std::int64_t>& positions) {
  return exact("sinusoidal.table", parameters, {{"positions", at(positions)}}, "table");
}

/// k_j − q_i, row-major.
std::vector<std::int64_t> memory_minus_query(std::int64_t queries, std::int64_t keys) {
  std::vector<std::int64_t> relative;
  for (std::int64_t q = 0; q < queries; ++q)
    for (std::int64_t k = 0; k < keys; ++k) relative.push_back(k - q);
  return relative;
}

/// The textbook chapter on positional information that this project follows (docs/design).
TEST(published, the_chapters_worked_numbers) {
  EXPECT_TRUE(agrees(table({{"d_model", 4}}, {1})[0], "0.84"));
  // Slope 1/2 at distance 6: a score of 10 becomes 7.
  EXPECT_EQ(10 + exact("alibi.bias", {{"num_heads", 8}},
                       {{"q_positions", at({6})}, {"k_positions", at({0})}}, "bias")[0],
            7);
  // Frequency 1/2 and offset 10 − 4: an angle of 3 radians.
  const json half{{"head_dim", 2}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}};
  const double cos = exact("rope.cos_sin", half, {{"positions", at({6})}}, "cos")[0];
  const double sin = exact("rope.cos_sin", half, {{"positions", at({6})}}, "sin")[0];
  EXPECT_DOUBLE_EQ(std::atan2(sin, cos), 3);
  Values row_numbers;
  for (int row = 0; row < 33; ++row) row_numbers.push_back(row - 16);
  EXPECT_EQ(exact("shaw.key_logits", {{"max_distance", 16}},
                  {{"q", Tensor(Dtype::f64, {1, 1, 1}, {1})},
                   {"relative_keys", Tensor(Dtype::f64, {33, 1}, row_numbers)},
                   {"q_positions", at({0})},
                   {"k_positions", at({40})}},
                  "logits"),
            Values{16});
}

/// huggingface/transformers, tests/utils/test_modeling_rope_utils.py,
/// test_default_rope_numerically: Llama's defaults, head_dim 128, base 10000.
TEST(published, hugging_face_default_inv_freq_of_head_dim_128) {
  const Digits first{"1.0000", "8.6596", "7.4989", "6.4938", "5.6234", "4.8697",
                     "4.2170", "3.6517", "3.1623", "2.7384", "2.3714", "2.0535",
                     "1.7783", "1.5399", "1.3335", "1.1548"};
  Digits all;
  for (int decade = 0; decade < 4; ++decade)
    for (std::size_t i = 0; i < first.size(); ++i)
      all.push_back(first[i] + "e-0" + std::to_string(decade + (i > 0)));
  EXPECT_TRUE(agree(exact("rope.inv_freq", {{"head_dim", 128}}, {}, "inv_freq"), all));
  EXPECT_EQ(exact("rope.inv_freq", {{"head_dim", 128}}, {}, "attention_factor"), Values{1});
}

/// facebookresearch/fairseq2, tests/unit/nn/test_position_encoder.py, expected_freqs: 32 columns,
/// sines then cosines, denominator d/2 − 1; rows 1, 4 and 9 of 10, printed from f32.
TEST(published, fairseq2_sinusoidal_rows) {
  const json parameters{{"d_model", 32}, {"layout", "concat"}, {"denominator", "half_minus_one"}};
  EXPECT_TRUE(
      agree(table(parameters, {1}),
            {"8.4147e-01", "5.1514e-01", "2.8870e-01", "1.5783e-01", "8.5664e-02", "4.6399e-02",
             "2.5116e-02", "1.3593e-02", "7.3564e-03", "3.9811e-03", "2.1544e-03", "1.1659e-03",
             "6.3096e-04", "3.4146e-04", "1.8479e-04", "1.0000e-04", "5.4030e-01", "8.5711e-01",
             "9.5742e-01", "9.8747e-01", "9.9632e-01", "9.9892e-01", "9.9968e-01", "9.9991e-01",
             "9.9997e-01", "9.9999e-01", "1.0000e+00", "1.0000e+00", "1.0000e+00", "1.0000e+00",
             "1.0000e+00", "1.0000e+00"},
            0.02));
  EXPECT_TRUE(
      agree(table(parameters, {4}),
            {"-7.5680e-01", "8.2877e-01", "9.2132e-01", "5.9234e-01", "3.3639e-01",  "1.8460e-01",
             "1.0031e-01",  "5.4347e-02", "2.9421e-02", "1.5924e-02", "8.6176e-03",  "4.6636e-03",
             "2.5238e-03",  "1.3658e-03", "7.3914e-04", "4.0000e-04", "-6.5364e-01", "-5.5958e-01",
             "3.8881e-01",  "8.0569e-01", "9.4172e-01", "9.8281e-01", "9.9496e-01",  "9.9852e-01",
             "9.9957e-01",  "9.9987e-01", "9.9996e-01", "9.9999e-01", "1.0000e+00",  "1.0000e+00",
             "1.0000e+00",  "1.0000e+00"},
            0.02));
  EXPECT_TRUE(
      agree(table(parameters, {9}),
            {"4.1212e-01",  "-9.8752e-01", "4.8452e-01", "9.8959e-01", "6.9752e-01",  "4.0570e-01",
             "2.2415e-01",  "1.2204e-01",  "6.6159e-02", "3.5822e-02", "1.9389e-02",  "1.0493e-02",
             "5.6786e-03",  "3.0731e-03",  "1.6631e-03", "9.0000e-04", "-9.1113e-01", "1.5748e-01",
             "-8.7478e-01", "1.4389e-01",  "7.1657e-01", "9.1401e-01", "9.7455e-01",  "9.9253e-01",
             "9.9781e-01",  "9.9936e-01",  "9.9981e-01", "9.9994e-01", "9.9998e-01",  "1.0000e+00",
             "1.0000e+00",  "1.0000e+00"},
            0.02));
}

/// huggingface/transformers, tests/test_modeling_fsmt.py, TestSinusoidalPositionalEmbeddings: what
/// Marian computes at positions 1 and 2 of 512 columns (test_positional_emb_weights_against_marian,
/// skipped there as "different from marian"; its forerunner in BART's tests allows 1e-3, which
/// hides that BART divides by d/2), and fairseq's rows 2 and 3 of 6 columns (test_basic). Both are
/// printed from f32 and have the denominator d/2 − 1.
TEST(published, marian_and_fairseq_sinusoidal_rows) {
  json parameters{{"d_model", 512}, {"layout", "concat"}, {"denominator", "half_minus_one"}};
  const Values wide = table(parameters, {1, 2});
  EXPECT_TRUE(agree({wide.begin(), wide.begin() + 5},
                    {"0.84147096", "0.82177866", "0.80180490", "0.78165019", "0.76140374"}, 12));
  EXPECT_TRUE(agree({wide.begin() + 512, wide.begin() + 517},
                    {"0.90929741", "0.93651021", "0.95829457", "0.97505713", "0.98720258"}, 12));
  parameters["denominator"] = "half";
  EXPECT_FALSE(agrees(table(parameters, {1})[1], "0.8218"));
  parameters = {{"d_model", 6}, {"layout", "concat"}, {"denominator", "half_minus_one"}};
  EXPECT_TRUE(
      agree(table(parameters, {2, 3}),
            {"9.0930e-01", "1.9999e-02", "2.0000e-04", "-4.1615e-01", "9.9980e-01", "1.0000e+00",
             "1.4112e-01", "2.9995e-02", "3.0000e-04", "-9.8999e-01", "9.9955e-01", "1.0000e+00"},
            0.02));
}

/// keras-team/keras-hub, keras_hub/src/layers/modeling/sine_position_encoding_test.py,
/// test_output_correct_values: position 3, interleaved; the digits are cut, not rounded.
TEST(published, keras_hub_sine_position_encoding) {
  EXPECT_TRUE(agree(table({{"d_model", 6}}, {3}),
                    {"0.14112", "-0.98999", "0.13879", "0.99032", "0.00646", "0.99997"}, 0.5));
}

/// keras-team/keras-hub, keras_hub/src/layers/modeling/rotary_embedding_test.py: a row of ones at
/// position 3 (test_output_correct_values), and linear scaling by 2 and 5, which its authors took
/// from Hugging Face's Llama in f32 (test_rope_scaling, test_rope_scaling_with_kv_cache): the last
/// two of nine digits are f32's.
TEST(published, keras_hub_rotary_embedding) {
  const auto rotated_ones = [](json parameters, std::int64_t position) {
    const auto width = parameters["head_dim"].get<std::size_t>();
    return exact("rope.apply", parameters,
                 {{"x", Tensor(Dtype::f64, {1, 1, width}, Values(width, 1.0))},
                  {"positions", at({position})}},
                 "y");
  };
  EXPECT_TRUE(agree(rotated_ones({{"head_dim", 6}}, 3),
                    {"-1.1311", "0.8515", "0.9935", "-0.8489", "1.1291", "1.0064"}));
  json scaled{{"head_dim", 4}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}};
  EXPECT_TRUE(agree(rotated_ones(scaled, 1),
                    {"0.398157001", "0.994987488", "1.357008100", "1.004987478"}, 120));
  EXPECT_TRUE(agree(rotated_ones(scaled, 2),
                    {"-0.301168621", "0.989950180", "1.381773233", "1.009949803"}, 120));
  scaled["rope_scaling"]["factor"] = 5;
  EXPECT_TRUE(agree(rotated_ones(scaled, 12),
                    {"-1.412856817", "0.975714266", "-0.061930716", "1.023709655"}, 240));
}

/// explosion/curated-transformers, curated_transformers/tests/layers/test_attention.py,
/// test_attention_linear_biases: 8 and 12 heads; the last digit of a running f64 product may be
/// off.
TEST(published, alibi_slopes_of_8_and_12_heads) {
  Values powers;
  for (int h = 1; h <= 8; ++h) powers.push_back(std::ldexp(1, -h));
  EXPECT_EQ(exact("alibi.slopes", {{"num_heads", 8}}, {}, "slopes"), powers);
  const Values twelve = exact("alibi.slopes", {{"num_heads", 12}}, {}, "slopes");
  ASSERT_EQ(twelve.size(), 12u);
  EXPECT_EQ(Values(twelve.begin(), twelve.begin() + 8), powers);
  EXPECT_TRUE(agree(
      {twelve.begin() + 8, twelve.end()},
      {"0.7071067811865476", "0.35355339059327384", "0.17677669529663692", "0.08838834764831849"},
      6));
  for (int h = 8; h < 12; ++h) EXPECT_DOUBLE_EQ(twelve[h] * twelve[h], std::ldexp(1, 15 - 2 * h));
}

/// The same test: 4 heads, causal rows and the symmetric form.
TEST(published, curated_transformers_alibi_biases) {
  const Tensors all{{"q_positions", at({0, 1, 2})}, {"k_positions", at({0, 1, 2})}};
  const Values symmetric = exact("alibi.bias", {{"num_heads", 4}, {"causal", false}}, all, "bias");
  ASSERT_EQ(symmetric.size(), 36u);
  EXPECT_EQ(Values(symmetric.begin(), symmetric.begin() + 9),
            (Values{0, -0.25, -0.5, -0.25, 0, -0.25, -0.5, -0.25, 0}));
  EXPECT_EQ(Values(symmetric.begin() + 27, symmetric.end()),
            (Values{0, -0.00390625, -0.0078125, -0.00390625, 0, -0.00390625, -0.0078125,
                    -0.00390625, 0}));
  EXPECT_EQ(exact("alibi.bias", {{"num_heads", 4}},
                  {{"q_positions", at({2})}, {"k_positions", at({0, 1, 2})}}, "bias"),
            (Values{-0.5, -0.25, 0, -0.125, -0.0625, 0, -0.03125, -0.015625, 0, -0.0078125,
                    -0.00390625, 0}));
}

/// keras-team/keras-hub, keras_hub/src/layers/modeling/alibi_bias_test.py: 14 heads; bias_max 12
/// and 6 (test_correct_output_alibi_bias_max…). Eight digits of f32: half a unit and f32's own ulp.
TEST(published, keras_hub_alibi_biases) {
  const Tensors row{{"q_positions", at({2})}, {"k_positions", at({0, 1, 2})}};
  const Values fourteen = exact("alibi.bias", {{"num_heads", 14}}, row, "bias");
  ASSERT_EQ(fourteen.size(), 42u);
  EXPECT_TRUE(agree({fourteen.begin() + 24, fourteen.end()},
                    {"-1.4142135", "-0.70710677", "0.0", "-0.70710677", "-0.35355338", "0.0",
                     "-0.35355338", "-0.17677669", "0.0", "-0.17677669", "-0.08838835", "0.0",
                     "-0.08838835", "-0.04419417", "0.0", "-0.04419417", "-0.02209709", "0.0"},
                    1));
  EXPECT_TRUE(agree(exact("alibi.bias", {{"num_heads", 2}, {"bias_max", 12}}, row, "bias"),
                    {"-0.03125", "-0.015625", "0.0", "-0.00048828", "-0.00024414", "0.0"}));
  EXPECT_TRUE(agree(exact("alibi.bias", {{"num_heads", 3}, {"bias_max", 6}}, row, "bias"),
                    {"-0.25", "-0.125", "0.0", "-0.03125", "-0.015625", "0.0", "-0.70710677",
                     "-0.35355338", "0.0"},
                    1));
}

/// dpressel/mead-baseline, eight_mile tests of SeqDotProductAttentionT5 (generate_buckets_values):
/// 7 queries, 6 keys, 32 buckets, and embeddings that count 0, 1, … through the heads.
TEST(published, eight_mile_t5_buckets_and_biases) {
  const Values matrix{0, 17, 18, 19, 20, 21, 1, 0, 17, 18, 19, 20, 2, 1, 0, 17, 18, 19, 3, 2, 1,
                      0, 17, 18, 4,  3,  2,  1, 0, 17, 5,  4,  3,  2, 1, 0, 6,  5,  4,  3, 2, 1};
  EXPECT_EQ(buckets(json::object(), memory_minus_query(7, 6)), matrix);
  Values embeddings(32 * 4);
  for (std::size_t bucket = 0; bucket < 32; ++bucket)
    for (std::size_t head = 0; head < 4; ++head)
      embeddings[bucket * 4 + head] = static_cast<double>(32 * head + bucket);
  Values expected;
  for (int head = 0; head < 4; ++head)
    for (double bucket : matrix) expected.push_back(32 * head + bucket);
  EXPECT_EQ(exact("t5.bias", json::object(),
                  {{"q_positions", at({0, 1, 2, 3, 4, 5, 6})},
                   {"k_positions", at({0, 1, 2, 3, 4, 5})},
                   {"table", Tensor(Dtype::f64, {32, 4}, embeddings)}},
                  "bias"),
            expected);
}

/// tensorflow/models, official/nlp/modeling/layers/position_embedding_test.py,
/// test_relative_position_bucket: 3 queries, 2 keys.
TEST(published, tensorflow_models_t5_buckets) {
  EXPECT_EQ(buckets(json::object(), memory_minus_query(3, 2)), (Values{0, 17, 1, 0, 2, 1}));
  EXPECT_EQ(buckets({{"bidirectional", false}}, memory_minus_query(3, 2)),
            (Values{0, 0, 1, 0, 2, 1}));
}

/// apple/axlearn, axlearn/common/t5_test.py, test_mtf_buckets: offsets −20 to 20.
TEST(published, axlearn_t5_buckets) {
  std::vector<std::int64_t> offsets;
  for (int offset = -20; offset <= 20; ++offset) offsets.push_back(offset);
  EXPECT_EQ(
      buckets({{"num_buckets", 16}, {"max_distance", 20}}, offsets),
      (Values{7, 7,  7,  7,  7,  7,  7,  6,  6,  6,  6,  6,  5,  5,  5,  4,  4,  3,  2,  1, 0,
              9, 10, 11, 12, 12, 13, 13, 13, 14, 14, 14, 14, 14, 15, 15, 15, 15, 15, 15, 15}));
  EXPECT_EQ(
      buckets({{"num_buckets", 28}, {"max_distance", 15}}, offsets),
      (Values{13, 13, 13, 13, 13, 13, 13, 12, 11, 11, 10, 9,  8,  7,  6,  5,  4,  3,  2,  1, 0,
              15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 25, 26, 27, 27, 27, 27, 27, 27, 27}));
}

}  // namespace
}  // namespace posproof
