#include "optimized/core/waves.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "optimized/core/checks.hpp"
#include "optimized/core/rounding.hpp"
#include "optimized/core/waves_vector.hpp"

namespace posproof::optimized::core {
namespace {

constexpr std::size_t kPadding = 16;  // lanes of two vectors of doubles

/// Nothing depends on it, but it must not make the vector code undecided at every position, as a
/// sine of 0 would.
constexpr double kPaddedTurns = 0x1.3579bdp-3;

std::size_t padded_to(std::size_t count, std::size_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// The wave of frequency turns + turns_low; with its largest error.
double direct_wave(double position, double turns, double turns_low, bool is_sin, double& error) {
  const double high = position * turns;
  const double low = std::fma(position, turns, -high);
  const double shifted = high + kShifter;
  const double f = (high - (shifted - kShifter)) + std::fma(position, turns_low, low);
  const auto quadrant = std::bit_cast<std::uint64_t>(shifted) & 3u;
  const double square = f * f;
  const bool takes_sin = is_sin == (quadrant % 2 == 0);
  double value = takes_sin ? kSin[8] : kCos[8];
  for (int k = 7; k >= 0; --k) value = value * square + (takes_sin ? kSin[k] : kCos[k]);
  if (takes_sin) value *= f;
  const bool is_negative = is_sin ? quadrant >= 2 : quadrant == 1 || quadrant == 2;
  error = kWaveError * std::fabs(value) + kTurnError * std::fabs(high);
  return is_negative ? -value : value;
}

}  // namespace

Waves::Waves(Exact exact, DoubleDouble amplitude, Isa isa)
    : exact_(std::move(exact)),
      amplitude_(amplitude),
      isa_(isa),
      pairs_(exact_.pairs()),
      padded_(padded_to(std::max<std::size_t>(pairs_, 1), kPadding)),
      half_block_(std::clamp<std::size_t>(16384 / padded_, 8, 128)) {
  const double magnitude = std::fabs(amplitude.hi);
  if (!(magnitude == 0 || (magnitude >= 0x1p-200 && magnitude <= 0x1p200)))
    throw std::domain_error("amplitude: found " + std::to_string(amplitude.hi) +
                                ", allowed is 0 or 2^-200 to 2^200");
  turns_ = hwy::AllocateAligned<double>(3 * padded_);
  for (std::size_t i = 0; i < padded_; ++i) {
    const DoubleDouble turns = i < pairs_ ? exact_.quarter_turns(i) : DoubleDouble{kPaddedTurns, 0};
    turns_[i] = turns.hi;
    turns_[padded_ + i] = turns.lo;
    // sin x ≤ x; 1.6 > π/2.
    turns_[2 * padded_ + i] = std::min(1.0, static_cast<double>(half_block_) * 1.6 * turns.hi);
  }
  if (isa_ == Isa::scalar) return;
  fine_ = hwy::AllocateAligned<double>(2 * half_block_ * padded_);
  vector::make_fine(isa_, turns_.get(), turns_.get() + padded_, padded_, half_block_, fine_.get(),
                    fine_.get() + half_block_ * padded_);
}

Waves::Lanes Waves::lanes() const noexcept {
  const double* turns = turns_.get();
  const double* fine = fine_.get();
  return {pairs_, padded_, half_block_, amplitude_.hi, turns, turns + padded_, fine,
          fine == nullptr ? nullptr : fine + half_block_ * padded_, turns + 2 * padded_};
}

template <class T>
T Waves::wave(double position, std::size_t pair, bool is_sin) const noexcept {
  if (amplitude_.hi == 0) return T{};
  double error;
  const double value = amplitude_.hi * direct_wave(position, turns_[pair], turns_[padded_ + pair],
                                                   is_sin, error);
  error *= std::fabs(amplitude_.hi);
  const T below = round_to<T>(value - error), above = round_to<T>(value + error);
  if (bits_of(below) == bits_of(above)) return below;
  return round_to<T>(exact_.wave(position, pair, is_sin, amplitude_));
}

template <class T>
void Waves::range(std::int64_t first, std::size_t count, Rows<T> rows) const noexcept {
  assert(are_positions(first, count));
  // The sign of a zero would depend on the path.
  if (isa_ != Isa::scalar && amplitude_.hi != 0)
    return vector::range<T>(*this, first, count, rows);
  ran_on = Isa::scalar;
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t pair = 0; pair < pairs_; ++pair)
      for (const bool is_sin : {true, false})
        rows.from(row).at(pair, is_sin) =
            wave<T>(static_cast<double>(first + static_cast<std::int64_t>(row)), pair, is_sin);
}

template <class T, class Position>
void Waves::list(const Position* positions, std::size_t count, Rows<T> rows) const noexcept {
  assert(are_positions(positions, count));
  if (isa_ != Isa::scalar && amplitude_.hi != 0)
    return vector::list<T>(*this, positions, count, rows);
  ran_on = Isa::scalar;
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t pair = 0; pair < pairs_; ++pair)
      for (const bool is_sin : {true, false})
        rows.from(row).at(pair, is_sin) =
            wave<T>(static_cast<double>(positions[row]), pair, is_sin);
}

void Waves::near_midpoints(std::int64_t first, std::size_t count, Found found,
                           void* context) const noexcept {
  if (isa_ != Isa::scalar) return vector::near_midpoints(*this, first, count, found, context);
  const double error = 3 * kProductError * std::fabs(amplitude_.hi);
  for (std::int64_t position = first; position < first + static_cast<std::int64_t>(count); ++position)
    for (std::size_t pair = 0; pair < pairs_; ++pair)
      for (const bool is_sin : {true, false}) {
        double unused;
        const double value = amplitude_.hi * direct_wave(static_cast<double>(position), turns_[pair],
                                                         turns_[padded_ + pair], is_sin, unused);
        if (static_cast<float>(value - error) != static_cast<float>(value + error))
          found(context, position, pair, is_sin);
      }
}

#define POSPROOF_WAVES(T)                                                                        \
  template T Waves::wave<T>(double, std::size_t, bool) const noexcept;                           \
  template void Waves::range<T>(std::int64_t, std::size_t, Rows<T>) const noexcept;              \
  template void Waves::list<T>(const std::int32_t*, std::size_t, Rows<T>) const noexcept;        \
  template void Waves::list<T>(const std::int64_t*, std::size_t, Rows<T>) const noexcept;
POSPROOF_WAVES(float)
POSPROOF_WAVES(F16)
POSPROOF_WAVES(BF16)
#undef POSPROOF_WAVES

namespace {
constexpr double kOne[] = {1.0};
}

F32Waves::F32Waves(std::span<const float> inv_freq, Isa isa)
    : unit_(Exact(kOne), {1, 0}, isa),
      waves_(Exact(std::vector<double>(inv_freq.begin(), inv_freq.end())), {1, 0}, isa),
      inv_freq_(hwy::AllocateAligned<float>(waves_.lanes().padded)) {
  std::fill(std::copy(inv_freq.begin(), inv_freq.end(), inv_freq_.get()),
            inv_freq_.get() + waves_.lanes().padded, 0.7f);
}

bool F32Waves::has_small_angles(std::int64_t first, std::size_t count) const noexcept {
  const auto farthest = static_cast<double>(
      std::max(std::abs(first), std::abs(first + static_cast<std::int64_t>(count) - 1)));
  float largest = 0, least = 1;
  for (std::size_t i = 0; i < pairs(); ++i) {
    largest = std::max(largest, inv_freq_[i]);
    least = std::min(least, inv_freq_[i]);
  }
  return farthest < 0x1p24 && farthest * largest < 0x1p17 && least > 0x1p-70f;
}

void F32Waves::range(std::int64_t first, std::size_t count, Rows<float> rows) const noexcept {
  if (unit_.isa() != Isa::scalar) return vector::range_of_f32_angles(*this, first, count, rows);
  ran_on = Isa::scalar;
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t pair = 0; pair < pairs(); ++pair) {
      const float position = static_cast<float>(first + static_cast<std::int64_t>(row));
      for (const bool is_sin : {true, false})
        rows.from(row).at(pair, is_sin) = wave(position * inv_freq_[pair], is_sin);
    }
}

}  // namespace posproof::optimized::core
