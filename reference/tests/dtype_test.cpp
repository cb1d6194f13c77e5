#include <gtest/gtest.h>

#include <random>

#include "reference/core/tensor.hpp"
#include "reference/tests/float_layout.hpp"

namespace posproof {
namespace {

TEST(dtype, every_16_bit_pattern_has_its_value_and_comes_back) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    for (const Layout& layout : {kF16, kBf16}) {
      const bool half = layout.dtype == Dtype::f16;
      const double value = half ? to_double(f16{pattern}) : to_double(bf16{pattern});
      const std::uint16_t back = half ? to_f16(value).bits : to_bf16(value).bits;
      if ((pattern & 0x7fffu) > layout.infinity()) {
        ASSERT_TRUE(std::isnan(value)) << pattern;
        ASSERT_GT(back & 0x7fffu, layout.infinity()) << pattern;
        ASSERT_EQ(back >> 15, pattern >> 15);
        continue;
      }
      const int sign = pattern >> 15 ? -1 : 1;
      ASSERT_TRUE(same(value, sign * layout.value(pattern & 0x7fffu))) << pattern;
      ASSERT_EQ(back, pattern);
    }
  }
}

TEST(dtype, doubles_around_every_16_bit_midpoint_are_rounded_once) {
  for (const Layout& layout : {kF16, kBf16})
    for (std::uint64_t pattern = 0; pattern < layout.infinity(); ++pattern) {
      const Dyadic middle = layout.midpoint(pattern);
      const double tie = std::ldexp(middle.m.convert_to<double>(), middle.e);
      const double inputs[] = {std::nextafter(tie, 0), tie, std::nextafter(tie, kInfinity)};
      const std::uint64_t expected[] = {pattern, pattern + pattern % 2, pattern + 1};
      for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(same(round_to(inputs[i], format_of(layout.dtype)), layout.value(expected[i])));
        ASSERT_TRUE(
            same(round_to(-inputs[i], format_of(layout.dtype)), -layout.value(expected[i])));
        Tensor tensor(layout.dtype, {2});
        tensor.set(0, inputs[i]);
        tensor.set(1, -inputs[i]);
        ASSERT_EQ(tensor.bits(0), expected[i]);
        ASSERT_EQ(tensor.bits(1), expected[i] | 0x8000u);
      }
    }
}

TEST(dtype, round_to_f32_and_tensors_agree_with_the_machine_down_to_subnormals) {
  std::mt19937_64 random(4);
  Tensor tensor(Dtype::f32, {1});
  for (int i = 0; i < 200000; ++i) {
    double value = std::bit_cast<double>(random());
    if (i % 2)
      value = std::ldexp(static_cast<double>(random()), -190 - static_cast<int>(random() % 24));
    if (std::isnan(value)) continue;
    const auto expected = static_cast<float>(value);
    ASSERT_TRUE(same(round_to(value, format_of(Dtype::f32)), expected)) << value;
    ASSERT_TRUE(same(round_to(value, format_of(Dtype::f64)), value)) << value;
    tensor.set(0, value);
    ASSERT_EQ(tensor.bits(0), std::bit_cast<std::uint32_t>(expected));
  }
  for (double value :
       {0x1p-149, 0x1.8p-149, 0x1p-150, 0x1.000001p-150, -0x1p-126, 0x1.fffffp-127}) {
    tensor.set(0, value);
    EXPECT_EQ(tensor.bits(0), std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    EXPECT_TRUE(same(tensor.value(0), static_cast<float>(value)));
  }
}

TEST(dtype, formats_state_roundoff_and_smallest_value) {
  EXPECT_EQ(format_of(Dtype::f32).smallest(), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(format_of(Dtype::f64).smallest(), std::numeric_limits<double>::denorm_min());
  for (const Layout& layout : {kF64, kF32, kF16, kBf16}) {
    EXPECT_EQ(format_of(layout.dtype).smallest(), layout.value(1));
    EXPECT_EQ(format_of(layout.dtype).unit_roundoff(), std::ldexp(0.5, -layout.fraction_bits));
    EXPECT_EQ(dtype_from(name(layout.dtype)), layout.dtype);
  }
  EXPECT_THROW(format_of(Dtype::i64), std::invalid_argument);
  EXPECT_THROW(dtype_from("float32"), std::invalid_argument);
}

}  // namespace
}  // namespace posproof
