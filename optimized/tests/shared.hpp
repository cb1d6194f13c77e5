#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "optimized/core/isa.hpp"
#include "optimized/core/positions.hpp"
#include "optimized/core/types.hpp"

namespace posproof::optimized::tests {

using Types = ::testing::Types<float, F16, BF16>;

template <class T>
inline constexpr const char* kTypeName = "f32";
template <>
inline constexpr const char* kTypeName<F16> = "f16";
template <>
inline constexpr const char* kTypeName<BF16> = "bf16";

inline std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
inline std::uint32_t bits(F16 value) { return value.bits; }
inline std::uint32_t bits(BF16 value) { return value.bits; }

template <class T>
T from_bits(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  else
    return {static_cast<std::uint16_t>(bits)};
}

/// What a number is worth: F16 and BF16 have significands of 11 and 8 bits.
template <class T>
struct Format {
  int digits, least_exponent;  ///< 2^least_exponent is the smallest subnormal
  double largest;
};
template <class T>
constexpr Format<T> format() {
  if constexpr (std::is_same_v<T, float>)
    return {24, -149, 0x1.fffffep127};
  else if constexpr (std::is_same_v<T, F16>)
    return {11, -24, 65504};
  else
    return {8, -133, 0x1.fep127};
}

/// The double nearest-even in T of `exact`, by counting quanta: another way than the kernels'.
template <class T>
double nearest(double exact) {
  if (exact == 0 || !std::isfinite(exact)) return exact;
  int exponent;
  std::frexp(exact, &exponent);
  const int quantum = std::max(exponent - format<T>().digits, format<T>().least_exponent);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(exact, -quantum)), quantum);
  if (std::fabs(rounded) > format<T>().largest)
    return std::copysign(std::numeric_limits<double>::infinity(), exact);
  return rounded;
}

inline double value(float x) { return x; }
inline double value(BF16 x) { return from_bits<float>(std::uint32_t{x.bits} << 16); }
inline double value(F16 x) {
  const int exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
  const double magnitude = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return (x.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// The T nearest to `exact`, by bisection of its magnitudes, which grow with their bits.
template <class T>
T encoded(double exact) {
  const double rounded = nearest<T>(exact), magnitude = std::fabs(rounded);
  constexpr int kWidth = 8 * sizeof(T);
  std::uint32_t low = 0, high = std::is_same_v<T, float> ? 0x7f800000u
                                : std::is_same_v<T, F16> ? 0x7c00u
                                                         : 0x7f80u;
  while (low < high) {
    const std::uint32_t middle = (low + high) / 2;
    if (value(from_bits<T>(middle)) < magnitude)
      low = middle + 1;
    else
      high = middle;
  }
  return from_bits<T>(low | (std::signbit(exact) ? 1u << (kWidth - 1) : 0u));
}

/// SplitMix64: integers only, so that inputs have the same bits from every compiler and library.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// An integer from first to last.
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return first +
           static_cast<std::int64_t>((*this)() % static_cast<std::uint64_t>(last - first + 1));
  }
  /// A normal number, 2^-8 ≤ |x| < 2^8, either sign.
  template <class T>
  T number() {
    const std::uint64_t random = (*this)();
    const auto exponent = static_cast<std::uint64_t>(random >> 32) % 16;
    if constexpr (std::is_same_v<T, float>)
      return from_bits<T>((random & 0x807fffff) | (exponent + 119) << 23);
    else if constexpr (std::is_same_v<T, F16>)
      return from_bits<T>((random & 0x83ff) | (exponent + 7) << 10);
    else
      return from_bits<T>((random & 0x807f) | (exponent + 119) << 7);
  }
  template <class T>
  std::vector<T> numbers(std::size_t count) {
    std::vector<T> all(count);
    for (T& each : all) each = number<T>();
    return all;
  }
  template <class Position = std::int64_t>
  std::vector<Position> positions(std::size_t count, std::int64_t first, std::int64_t last) {
    std::vector<Position> all(count);
    for (Position& each : all) each = static_cast<Position>(between(first, last));
    return all;
  }

 private:
  std::uint64_t state_;
};

/// FNV-1a, an element at a time.
class Digest {
 public:
  template <class T>
  void add(const T* data, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) state_ = (state_ ^ bits(data[i])) * 0x100000001b3;
  }
  void add(std::int64_t integer) {
    state_ = (state_ ^ static_cast<std::uint64_t>(integer)) * 0x100000001b3;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

/// Rows of a strided tensor [planes, rows, columns], in elements.
struct Region {
  std::size_t planes, rows, columns;
  std::ptrdiff_t plane_stride, row_stride;

  static Region of(std::size_t rows, std::size_t columns, std::size_t gap = 0) {
    return of(1, rows, columns, gap, 0);
  }
  static Region of(std::size_t planes, std::size_t rows, std::size_t columns, std::size_t gap,
                   std::size_t plane_gap) {
    const auto row = static_cast<std::ptrdiff_t>(columns + gap);
    return {planes, rows, columns,
            static_cast<std::ptrdiff_t>(rows) * row + static_cast<std::ptrdiff_t>(plane_gap), row};
  }
  std::size_t at(std::size_t plane, std::size_t row, std::size_t column) const {
    return static_cast<std::size_t>(static_cast<std::ptrdiff_t>(plane) * plane_stride +
                                    static_cast<std::ptrdiff_t>(row) * row_stride) +
           column;
  }
  /// Up to the last element; no gap follows it.
  std::size_t size() const {
    return planes * rows * columns == 0 ? 0 : at(planes - 1, rows - 1, columns - 1) + 1;
  }
};

/// Whole pages between two that may not be touched, full of junk. The region begins `offset`
/// elements past a cache line or ends where the forbidden page begins: there a single element read
/// or written too far stops the program.
template <class T>
class Memory {
 public:
  static constexpr std::size_t kAtTheEnd = ~std::size_t{0};

  explicit Memory(const Region& region, std::size_t offset = kAtTheEnd, std::uint64_t seed = 1)
      : region_(region), seed_(seed) {
    const std::size_t size = region.size(), margin = 256;
    const std::size_t bytes = (size + margin) * sizeof(T);
    pages_ = (bytes + kPage - 1) / kPage * kPage;
    mapped_ = static_cast<std::uint8_t*>(
        mmap(nullptr, pages_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (mapped_ == MAP_FAILED || mprotect(mapped_ + kPage, pages_, PROT_READ | PROT_WRITE) != 0)
      throw std::runtime_error("mmap");
    all_ = reinterpret_cast<T*>(mapped_ + kPage);
    count_ = pages_ / sizeof(T);
    begin_ = offset == kAtTheEnd ? count_ - size : 64 + offset;
    for (std::size_t i = 0; i < count_; ++i) all_[i] = junk(i);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { munmap(mapped_, pages_ + 2 * kPage); }

  T* data() { return all_ + begin_; }
  const Region& region() const { return region_; }
  T& at(std::size_t plane, std::size_t row, std::size_t column) {
    return data()[region_.at(plane, row, column)];
  }
  Scores<T> scores() { return {data(), region_.plane_stride, region_.row_stride}; }
  Scores<const T> const_scores() { return {data(), region_.plane_stride, region_.row_stride}; }

  /// Fills the rows, which lie packed in `values`.
  void set(const std::vector<T>& values) {
    each([&](T& element, std::size_t index) { element = values.at(index); });
  }
  std::vector<T> packed() {
    std::vector<T> values(region_.planes * region_.rows * region_.columns);
    each([&](T& element, std::size_t index) { values[index] = element; });
    return values;
  }
  /// The first element outside of the rows that is not the junk it was, or "".
  std::string touched() {
    std::vector<bool> is_inside(count_, false);
    for (std::size_t p = 0; p < region_.planes; ++p)
      for (std::size_t r = 0; r < region_.rows; ++r)
        for (std::size_t c = 0; c < region_.columns; ++c)
          is_inside[begin_ + region_.at(p, r, c)] = true;
    for (std::size_t i = 0; i < count_; ++i)
      if (!is_inside[i] && bits(all_[i]) != bits(junk(i)))
        return "element " +
               std::to_string(static_cast<std::ptrdiff_t>(i) -
                              static_cast<std::ptrdiff_t>(begin_)) +
               " of a region of " + std::to_string(region_.size()) + " was written";
    return "";
  }

 private:
  static constexpr std::size_t kPage = 4096;

  T junk(std::size_t index) const { return from_bits<T>(Generator(seed_ + index)()); }
  template <class Body>
  void each(const Body& body) {
    std::size_t index = 0;
    for (std::size_t p = 0; p < region_.planes; ++p)
      for (std::size_t r = 0; r < region_.rows; ++r)
        for (std::size_t c = 0; c < region_.columns; ++c) body(at(p, r, c), index++);
  }

  Region region_;
  std::uint64_t seed_;
  std::uint8_t* mapped_;
  T* all_;
  std::size_t pages_, count_, begin_;
};

/// The first element that differs, or "".
template <class T>
std::string difference(const std::vector<T>& found, const std::vector<T>& expected) {
  if (found.size() != expected.size()) return "sizes differ";
  for (std::size_t i = 0; i < found.size(); ++i)
    if (bits(found[i]) != bits(expected[i])) {
      char text[200];
      std::snprintf(text, sizeof text, "element %zu of %zu: found %a (bits %x), expected %a (%x)",
                    i, found.size(), value(found[i]), bits(found[i]), value(expected[i]),
                    bits(expected[i]));
      return text;
    }
  return "";
}

/// Where a region begins: on a cache line, past one, and flush with a page that may not be touched.
inline constexpr std::size_t kOffsets[] = {0, 1, 3, Memory<float>::kAtTheEnd};

/// body(first, count) of two halves on two threads.
template <class Body>
void on_two_threads(std::size_t count, const Body& body) {
  const std::size_t half = count / 2;
  std::thread other([&] { body(half, count - half); });
  body(std::size_t{0}, half);
  other.join();
}

/// Runs `call` and returns what it throws.
template <class Error, class Call>
std::string thrown(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& other) {
    return std::string("of another type: ") + other.what();
  }
  return "nothing";
}

/// The Isa that POSPROOF_ISA names, or the fastest.
Isa forced_isa();

/// Calls of malloc and its kin so far.
std::size_t allocations();

}  // namespace posproof::optimized::tests

/// Asserts of the kernels are there in debug builds only.
#ifdef NDEBUG
#define EXPECT_ASSERTS(call, message) \
  if (::testing::Test::IsSkipped()) { \
    call;                             \
  } else                              \
    GTEST_SKIP() << "asserts are compiled out: run the debug preset"
#else
#define EXPECT_ASSERTS(call, message) EXPECT_DEATH(call, message)
#endif
