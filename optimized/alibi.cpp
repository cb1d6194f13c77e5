#include "optimized/alibi.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>

#include "optimized/core/checks.hpp"
#include "optimized/core/exact.hpp"
#include "optimized/core/rounding.hpp"
#include "optimized/core/rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimized/alibi.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "optimized/core/narrow-inl.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::optimized::alibi::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace core::HWY_NAMESPACE;

/// strip[c] = slope·(first + c), or slope·−|first + c|, as far as whole vectors reach; returns the
/// count of those. Bit c of undecided[c/32] is set where the bounds leave it open.
template <class T>
HWY_ATTR std::size_t make_strip(bool is_symmetric, double below, double above, std::int64_t first,
                                std::size_t count, T* strip, std::uint8_t* is_open) {
  core::ran_on = HWY_TARGET == HWY_AVX3 ? Isa::avx512 : Isa::avx2;
  const hn::ScalableTag<double> d;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  const auto slope_below = hn::Set(d, below), slope_above = hn::Set(d, above);
  const auto values = [&](std::size_t at) HWY_ATTR __attribute__((always_inline)) {
    auto n = hn::Add(hn::Iota(d, 0.0),
                     hn::Set(d, static_cast<double>(first + static_cast<std::int64_t>(at))));
    if (is_symmetric) n = hn::Sub(hn::Zero(d), hn::Abs(n));  // +0 at 0
    return Between{hn::Mul(n, slope_below), hn::Mul(n, slope_above)};
  };
  std::size_t at = 0;
  for (; at + 2 * kLanes <= count; at += 2 * kLanes) {
    const auto rounded = Narrow<T>::round(values(at), values(at + kLanes), Identity{});
    Narrow<T>::template store<false>(rounded.value, strip + at);
    is_open[at / (2 * kLanes)] = Narrow<T>::is_decided(rounded.differs) ? 0 : 1;
  }
  return at;
}

}  // namespace posproof::optimized::alibi::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace posproof::optimized::alibi {
namespace {

constexpr std::size_t kTileColumns = 2048, kTileRows = 256;
constexpr std::size_t kStrip = kTileColumns + kTileRows;

/// 4 places of a double: the slope is off by one, the product by half of one.
constexpr double kError = 0x1p-50;

}  // namespace

Bias::Bias(const Parameters& parameters, Isa isa) : isa_(isa), bias_max_(parameters.bias_max) {
  const std::size_t heads = parameters.num_heads;
  if (heads < 1) throw std::invalid_argument("num_heads: found 0, allowed is ≥ 1");
  if (!(bias_max_ > 0) || bias_max_ > 65536)
    throw std::invalid_argument("bias_max: found " + std::to_string(bias_max_) +
                                ", allowed is above 0 to 65536");
  if (parameters.head_offset >= heads || parameters.local_heads > heads - parameters.head_offset)
    throw std::invalid_argument("head_offset, local_heads: found " +
                                std::to_string(parameters.head_offset) + " and " +
                                std::to_string(parameters.local_heads) +
                                ", allowed are num_heads = " + std::to_string(heads) + " in all");
  std::size_t regular = 1;
  while (2 * regular <= heads) regular *= 2;
  if (parameters.rule == Rule::geometric) regular = heads;
  const std::size_t count =
      parameters.local_heads == 0 ? heads - parameters.head_offset : parameters.local_heads;
  for (std::size_t h = parameters.head_offset; h < parameters.head_offset + count; ++h) {
    const double multiple = static_cast<double>(h < regular ? h + 1 : 2 * (h - regular) + 1);
    const double denominator = static_cast<double>(h < regular ? regular : 2 * regular);
    const double slope = core::slope_times(bias_max_, multiple, denominator, 1);
    int exponent;
    const bool is_exact = slope > 0x1p-1000 && std::frexp(slope, &exponent) == 0.5;
    slopes_.push_back({is_exact ? slope : slope * (1 - kError),
                       is_exact ? slope : slope * (1 + kError), multiple, denominator});
  }
}

template <class T>
T Bias::value(std::size_t head, std::int64_t n) const noexcept {
  const Slope& slope = slopes_[head];
  const auto factor = static_cast<double>(n);
  const T below = core::round_to<T>(slope.below * factor);
  const T above = core::round_to<T>(slope.above * factor);
  if (core::bits_of(below) == core::bits_of(above)) return below;
  return core::round_to<T>(
      core::slope_times(bias_max_, slope.multiple, slope.denominator, factor));
}

template <class T>
T Bias::slope(std::size_t head) const noexcept {
  return value<T>(head, 1);
}

template <class T>
void Bias::make_strip(Form form, std::size_t head, std::int64_t first, std::size_t count,
                      T* strip) const noexcept {
  const bool is_symmetric = form == Form::distance;
  const auto one = [&](std::size_t at) {
    const std::int64_t n = first + static_cast<std::int64_t>(at);
    strip[at] = value<T>(head, is_symmetric ? -std::abs(n) : n);
  };
  std::size_t done = 0;
  if (isa_ != Isa::scalar) {
    std::uint8_t is_open[kStrip / 8 + 1];
    const Slope& slope = slopes_[head];
    const std::size_t width = isa_ == Isa::avx512 ? 16 : 8;
    done = isa_ == Isa::avx512 ? N_AVX3::make_strip(is_symmetric, slope.below, slope.above, first,
                                                    count, strip, is_open)
                               : N_AVX2::make_strip(is_symmetric, slope.below, slope.above, first,
                                                    count, strip, is_open);
    for (std::size_t group = 0; group < done / width; ++group)
      for (std::size_t at = group * width; is_open[group] != 0 && at < (group + 1) * width; ++at)
        one(at);
  }
  for (; done < count; ++done) one(done);
}

/// write(strip, row of the scores, count): along runs the bias of a row is a piece of one strip.
template <class T, class Strip, class Write>
void Bias::by_rows(Form form, Positions queries, Positions keys, Scores<T> scores,
                   const Write& write) const noexcept {
  assert(scores.data != nullptr || queries.count == 0 || keys.count == 0);
  assert(core::are_rows_apart(heads(), scores.head_stride, queries.count, scores.row_stride,
                              keys.count));
  assert(core::are_positions(queries) && core::are_positions(keys));
  core::ran_on = Isa::scalar;
  Strip strip[kStrip];
  const bool shifts = form != Form::key;
  const bool is_tiled = keys.is_run() && (queries.is_run() || !shifts);
  const std::size_t tile_rows = is_tiled ? kTileRows : 1;
  for (std::size_t head = 0; head < heads(); ++head)
    for (std::size_t row = 0; row < queries.count; row += tile_rows) {
      const std::size_t rows = std::min(tile_rows, queries.count - row);
      for (std::size_t column = 0; column < keys.count; column += kTileColumns) {
        const std::size_t columns = std::min(kTileColumns, keys.count - column);
        if (!is_tiled) {
          for (std::size_t c = 0; c < columns; ++c) {
            std::int64_t n = keys.at(column + c) - (shifts ? queries.at(row) : 0);
            if (form == Form::distance) n = -std::abs(n);
            strip[c] = value<Strip>(head, n);
          }
          write(strip, scores.row(head, row) + column, columns);
          continue;
        }
        // Row r of the tile begins at strip[rows − 1 − r].
        const std::size_t extra = shifts ? rows - 1 : 0;
        const std::int64_t first = keys.at(column) - (shifts ? queries.at(row + rows - 1) : 0);
        make_strip(form, head, first, columns + extra, strip);
        for (std::size_t r = 0; r < rows; ++r)
          write(strip + (shifts ? extra - r : 0), scores.row(head, row + r) + column, columns);
      }
    }
}

template <class T>
void Bias::fill(Form form, Positions queries, Positions keys, Scores<T> bias) const noexcept {
  const bool is_streamed =
      heads() * queries.count * keys.count * sizeof(T) >= core::kStreamedBytes;
  by_rows<T, T>(form, queries, keys, bias, [&](const T* strip, T* row, std::size_t count) {
    core::copy_row(isa_, strip, row, count, is_streamed);
  });
  if (is_streamed) core::finish_streaming();
}

template <class T>
void Bias::add(Form form, Positions queries, Positions keys, Scores<T> scores) const noexcept {
  by_rows<T, float>(form, queries, keys, scores, [&](const float* strip, T* row, std::size_t count) {
    core::add_row(isa_, row, strip, row, count, false);
  });
}

#define POSPROOF_BIAS(T)                                                            \
  template T Bias::slope<T>(std::size_t) const noexcept;                            \
  template T Bias::value<T>(std::size_t, std::int64_t) const noexcept;              \
  template void Bias::fill(Form, Positions, Positions, Scores<T>) const noexcept;   \
  template void Bias::add(Form, Positions, Positions, Scores<T>) const noexcept;
POSPROOF_BIAS(float)
POSPROOF_BIAS(F16)
POSPROOF_BIAS(BF16)

}  // namespace posproof::optimized::alibi
#endif
