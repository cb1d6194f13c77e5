#include "optimized/shaw.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "optimized/core/checks.hpp"
#include "optimized/core/rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimized/shaw.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#ifndef POSPROOF_OPTIMIZED_SHAW_SIZES
#define POSPROOF_OPTIMIZED_SHAW_SIZES
namespace posproof::optimized::shaw {
/// Partial sums of a run of weights, query rows at a time, and columns of relative keys at a time.
inline constexpr std::size_t kPartial = 16, kRows = 8, kColumns = 512;
}  // namespace posproof::optimized::shaw
#endif

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::optimized::shaw::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
constexpr D d;
constexpr std::size_t kLanes = hn::MaxLanes(d);
constexpr Isa kIsa = HWY_TARGET == HWY_AVX3 ? Isa::avx512 : Isa::avx2;

/// dots[row·kColumns + c] = q[row]·column(c) for kRows rows and `count` columns, a multiple of 16.
HWY_ATTR void dots(const float* const* q, const float* columns, std::size_t stride,
                   std::size_t head_dim, std::size_t count, float* to) {
  core::ran_on = kIsa;
  for (std::size_t c = 0; c < count; c += kLanes) {
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (std::size_t i = 0; i < head_dim; ++i) {
      const auto key = hn::Load(d, columns + i * stride + c);
      s0 = hn::MulAdd(hn::Set(d, q[0][i]), key, s0);
      s1 = hn::MulAdd(hn::Set(d, q[1][i]), key, s1);
      s2 = hn::MulAdd(hn::Set(d, q[2][i]), key, s2);
      s3 = hn::MulAdd(hn::Set(d, q[3][i]), key, s3);
      s4 = hn::MulAdd(hn::Set(d, q[4][i]), key, s4);
      s5 = hn::MulAdd(hn::Set(d, q[5][i]), key, s5);
      s6 = hn::MulAdd(hn::Set(d, q[6][i]), key, s6);
      s7 = hn::MulAdd(hn::Set(d, q[7][i]), key, s7);
    }
    hn::Store(s0, d, to + 0 * kColumns + c);
    hn::Store(s1, d, to + 1 * kColumns + c);
    hn::Store(s2, d, to + 2 * kColumns + c);
    hn::Store(s3, d, to + 3 * kColumns + c);
    hn::Store(s4, d, to + 4 * kColumns + c);
    hn::Store(s5, d, to + 5 * kColumns + c);
    hn::Store(s6, d, to + 6 * kColumns + c);
    hn::Store(s7, d, to + 7 * kColumns + c);
  }
}

/// Sums of elements 0, 16, 32, …, of 1, 17, …; whole groups of 16 only.
HWY_ATTR void partial_sums(const float* weights, std::size_t groups, float* sums) {
  if constexpr (kLanes == kPartial) {
    auto sum = hn::Load(d, sums);
    for (std::size_t g = 0; g < groups; ++g)
      sum = hn::Add(sum, hn::LoadU(d, weights + g * kPartial));
    hn::Store(sum, d, sums);
  } else {
    auto lower = hn::Load(d, sums), upper = hn::Load(d, sums + kLanes);
    for (std::size_t g = 0; g < groups; ++g) {
      lower = hn::Add(lower, hn::LoadU(d, weights + g * kPartial));
      upper = hn::Add(upper, hn::LoadU(d, weights + g * kPartial + kLanes));
    }
    hn::Store(lower, d, sums);
    hn::Store(upper, d, sums + kLanes);
  }
}

/// out[lane] += Σ_r weights[r]·values[r, lane] in the order of r, for whole vectors of lanes; returns
/// the lanes done.
HWY_ATTR std::size_t add_rows(const float* weights, std::size_t rows, const float* values,
                              std::size_t width, float* out) {
  core::ran_on = kIsa;
  std::size_t lane = 0;
  for (; lane + 4 * kLanes <= width; lane += 4 * kLanes) {
    auto s0 = hn::LoadU(d, out + lane), s1 = hn::LoadU(d, out + lane + kLanes);
    auto s2 = hn::LoadU(d, out + lane + 2 * kLanes), s3 = hn::LoadU(d, out + lane + 3 * kLanes);
    for (std::size_t r = 0; r < rows; ++r) {
      const auto w = hn::Set(d, weights[r]);
      const float* row = values + r * width + lane;
      s0 = hn::MulAdd(w, hn::LoadU(d, row), s0);
      s1 = hn::MulAdd(w, hn::LoadU(d, row + kLanes), s1);
      s2 = hn::MulAdd(w, hn::LoadU(d, row + 2 * kLanes), s2);
      s3 = hn::MulAdd(w, hn::LoadU(d, row + 3 * kLanes), s3);
    }
    hn::StoreU(s0, d, out + lane);
    hn::StoreU(s1, d, out + lane + kLanes);
    hn::StoreU(s2, d, out + lane + 2 * kLanes);
    hn::StoreU(s3, d, out + lane + 3 * kLanes);
  }
  for (; lane + kLanes <= width; lane += kLanes) {
    auto sum = hn::LoadU(d, out + lane);
    for (std::size_t r = 0; r < rows; ++r)
      sum = hn::MulAdd(hn::Set(d, weights[r]), hn::LoadU(d, values + r * width + lane), sum);
    hn::StoreU(sum, d, out + lane);
  }
  return lane;
}

HWY_ATTR void fill(float value, float* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::Set(d, value), d, to + i);
  for (; i < count; ++i) to[i] = value;
}

}  // namespace posproof::optimized::shaw::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace posproof::optimized::shaw {
namespace {

void dots_on(Isa isa, const float* const* q, const float* columns, std::size_t stride,
             std::size_t head_dim, std::size_t count, float* to) {
  if (isa == Isa::avx512) return N_AVX3::dots(q, columns, stride, head_dim, count, to);
  if (isa == Isa::avx2) return N_AVX2::dots(q, columns, stride, head_dim, count, to);
  for (std::size_t row = 0; row < kRows; ++row)
    for (std::size_t c = 0; c < count; ++c) {
      float sum = 0;
      for (std::size_t i = 0; i < head_dim; ++i)
        sum = std::fma(q[row][i], columns[i * stride + c], sum);
      to[row * kColumns + c] = sum;
    }
}

void fill_on(Isa isa, float value, float* to, std::size_t count) {
  if (isa == Isa::avx512) return N_AVX3::fill(value, to, count);
  if (isa == Isa::avx2) return N_AVX2::fill(value, to, count);
  std::fill_n(to, count, value);
}

float sum_on(Isa isa, const float* weights, std::size_t count) {
  alignas(64) float sums[kPartial] = {};
  const std::size_t groups = count / kPartial;
  if (isa == Isa::avx512) N_AVX3::partial_sums(weights, groups, sums);
  if (isa == Isa::avx2) N_AVX2::partial_sums(weights, groups, sums);
  for (std::size_t i = isa == Isa::scalar ? 0 : groups * kPartial; i < count; ++i)
    sums[i % kPartial] += weights[i];
  for (std::size_t half = kPartial / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

void add_rows_on(Isa isa, const float* weights, std::size_t rows, const float* values,
                 std::size_t width, float* out) {
  std::size_t lane = 0;
  if (isa == Isa::avx512) lane = N_AVX3::add_rows(weights, rows, values, width, out);
  if (isa == Isa::avx2) lane = N_AVX2::add_rows(weights, rows, values, width, out);
  for (; lane < width; ++lane)
    for (std::size_t r = 0; r < rows; ++r)
      out[lane] = std::fma(weights[r], values[r * width + lane], out[lane]);
}

/// Which row of a relative table a pair of positions takes.
struct Clip {
  std::int64_t max_distance;
  Sign sign;

  std::int64_t operator()(std::int64_t query, std::int64_t key) const {
    const std::int64_t relative = sign == Sign::key_minus_query ? key - query : query - key;
    return std::clamp(relative, -max_distance, max_distance) + max_distance;
  }
};

/// Along a run of keys, seen from one query: columns [0, begin) take one row of the table, [end, Lk)
/// another, and those between take adjacent rows, from `first` on, by `step`.
struct Stretch {
  std::size_t begin, end;
  std::int64_t before, first, step, after;

  Stretch(const Clip& clip, std::int64_t query, Positions keys) {
    const auto count = static_cast<std::int64_t>(keys.count);
    const std::int64_t relative = keys.first - query;  // of column 0
    begin = static_cast<std::size_t>(
        std::clamp<std::int64_t>(-clip.max_distance - relative, 0, count));
    end = static_cast<std::size_t>(
        std::clamp<std::int64_t>(clip.max_distance + 1 - relative, static_cast<std::int64_t>(begin),
                                 count));
    step = clip.sign == Sign::key_minus_query ? 1 : -1;
    before = step > 0 ? 0 : 2 * clip.max_distance;
    after = 2 * clip.max_distance - before;
    first = clip(query, keys.first + static_cast<std::int64_t>(begin));
  }
};

constexpr std::size_t kRowColumns = 2048;

}  // namespace

KeyLogits::KeyLogits(const float* relative_keys, std::size_t max_distance, std::size_t head_dim,
                     Sign sign, Isa isa)
    : isa_(isa),
      max_distance_(static_cast<std::int64_t>(max_distance)),
      head_dim_(head_dim),
      padded_((2 * max_distance + 1 + 15) / 16 * 16),
      sign_(sign),
      columns_(hwy::AllocateAligned<float>(padded_ * std::max<std::size_t>(head_dim, 1))) {
  assert(relative_keys != nullptr || head_dim == 0);
  for (std::size_t i = 0; i < head_dim; ++i)
    for (std::size_t r = 0; r < padded_; ++r)
      columns_[i * padded_ + r] =
          r <= 2 * max_distance ? relative_keys[r * head_dim + i] : 0.0f;
}

void KeyLogits::operator()(Scores<const float> q, std::size_t heads, Positions queries,
                           Positions keys, Scores<float> logits) const noexcept {
  assert(q.data != nullptr || head_dim_ == 0 || heads == 0 || queries.count == 0 || keys.count == 0);
  assert(logits.data != nullptr || heads == 0 || queries.count == 0 || keys.count == 0);
  assert(core::are_rows_apart(heads, logits.head_stride, queries.count, logits.row_stride,
                              keys.count));
  assert(core::are_apart({q.data, heads, q.head_stride, queries.count, q.row_stride, head_dim_},
                         {logits.data, heads, logits.head_stride, queries.count, logits.row_stride,
                          keys.count}));
  assert(core::are_positions(queries) && core::are_positions(keys));
  core::ran_on = Isa::scalar;
  if (keys.count == 0) return;
  const Clip clip{max_distance_, sign_};
  const bool is_small = padded_ <= kColumns;
  const bool is_streamed =
      heads * queries.count * keys.count * sizeof(float) >= core::kStreamedBytes;
  alignas(64) float dots[kRows * kColumns];
  alignas(64) float piece[kRowColumns];
  for (std::size_t head = 0; head < heads; ++head)
    for (std::size_t row = 0; row < queries.count; row += kRows) {
      const std::size_t rows = std::min(kRows, queries.count - row);
      const float* of[kRows];
      for (std::size_t r = 0; r < kRows; ++r) of[r] = q.row(head, row + std::min(r, rows - 1));
      if (is_small) dots_on(isa_, of, columns_.get(), padded_, head_dim_, padded_, dots);
      for (std::size_t r = 0; r < rows; ++r) {
        float* to = logits.row(head, row + r);
        const std::int64_t query = queries.at(row + r);
        if (!is_small || !keys.is_run()) {
          for (std::size_t j = 0; j < keys.count; ++j) {
            const auto column = static_cast<std::size_t>(clip(query, keys.at(j)));
            if (is_small) {
              to[j] = dots[r * kColumns + column];
              continue;
            }
            float sum = 0;
            for (std::size_t i = 0; i < head_dim_; ++i)
              sum = std::fma(of[r][i], columns_[i * padded_ + column], sum);
            to[j] = sum;
          }
          continue;
        }
        const float* dot = dots + r * kColumns;
        const Stretch stretch(clip, query, keys);
        for (std::size_t from = 0; from < keys.count; from += kRowColumns) {
          const std::size_t until = std::min(from + kRowColumns, keys.count);
          const std::size_t begin = std::clamp(stretch.begin, from, until);
          const std::size_t end = std::clamp(stretch.end, begin, until);
          fill_on(isa_, dot[stretch.before], piece, begin - from);
          for (std::size_t j = begin; j < end; ++j)
            piece[j - from] = dot[stretch.first + stretch.step * static_cast<std::int64_t>(
                                                                     j - stretch.begin)];
          fill_on(isa_, dot[stretch.after], piece + (end - from), until - end);
          core::copy_row(isa_, piece, to + from, until - from, is_streamed);
        }
      }
    }
  if (is_streamed) core::finish_streaming();
}

void value_term(const float* relative_values, std::size_t max_distance, std::size_t head_dim,
                Sign sign, Scores<const float> weights, std::size_t heads, Positions queries,
                Positions keys, Scores<float> out, Isa isa) noexcept {
  [[maybe_unused]] const bool is_empty = heads == 0 || queries.count == 0 || head_dim == 0;
  assert(is_empty || (relative_values != nullptr && out.data != nullptr));
  assert(is_empty || weights.data != nullptr || keys.count == 0);
  assert(core::are_rows_apart(heads, out.head_stride, queries.count, out.row_stride, head_dim));
  assert(core::are_apart(
             {weights.data, heads, weights.head_stride, queries.count, weights.row_stride, keys.count},
             {out.data, heads, out.head_stride, queries.count, out.row_stride, head_dim}) &&
         core::are_apart({relative_values, 1, 0, 2 * max_distance + 1,
                          static_cast<std::ptrdiff_t>(head_dim), head_dim},
                         {out.data, heads, out.head_stride, queries.count, out.row_stride, head_dim}));
  assert(core::are_positions(queries) && core::are_positions(keys));
  core::ran_on = Isa::scalar;
  const Clip clip{static_cast<std::int64_t>(max_distance), sign};
  const auto add = [&](const float* w, std::size_t rows, std::int64_t first, float* to) {
    add_rows_on(isa, w, rows, relative_values + static_cast<std::size_t>(first) * head_dim,
                head_dim, to);
  };
  for (std::size_t head = 0; head < heads; ++head)
    for (std::size_t row = 0; row < queries.count; ++row) {
      const float* w = weights.row(head, row);
      float* to = out.row(head, row);
      std::fill_n(to, head_dim, 0.0f);
      const std::int64_t query = queries.at(row);
      if (!keys.is_run()) {
        for (std::size_t j = 0; j < keys.count; ++j) add(w + j, 1, clip(query, keys.at(j)), to);
        continue;
      }
      const Stretch stretch(clip, query, keys);
      if (stretch.begin > 0) {
        const float sum = sum_on(isa, w, stretch.begin);
        add(&sum, 1, stretch.before, to);
      }
      if (stretch.step > 0) {
        if (stretch.end > stretch.begin)
          add(w + stretch.begin, stretch.end - stretch.begin, stretch.first, to);
      } else {
        for (std::size_t j = stretch.begin; j < stretch.end; ++j)
          add(w + j, 1, stretch.first - static_cast<std::int64_t>(j - stretch.begin), to);
      }
      if (stretch.end < keys.count) {
        const float sum = sum_on(isa, w + stretch.end, keys.count - stretch.end);
        add(&sum, 1, stretch.after, to);
      }
    }
}

}  // namespace posproof::optimized::shaw
#endif
