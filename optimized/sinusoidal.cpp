#include "optimized/sinusoidal.hpp"

#include <cassert>
#include <stdexcept>
#include <string>

#include "optimized/core/checks.hpp"

namespace posproof::optimized::sinusoidal {
namespace {

core::Waves waves_of(const Parameters& parameters, Isa isa) {
  if (parameters.d_model < 1 || (parameters.d_model % 2 != 0 && !parameters.zero_pad))
    throw std::invalid_argument("d_model: found " + std::to_string(parameters.d_model) +
                                ", allowed is an even number ≥ 2, or an odd one with zero_pad");
  const std::size_t pairs = parameters.d_model / 2;
  const double denominator = parameters.denominator == Denominator::half
                                 ? static_cast<double>(parameters.d_model) / 2
                                 : static_cast<double>(pairs) - 1;
  return {core::Exact(pairs, parameters.base, denominator, 1), {parameters.scale, 0}, isa};
}

}  // namespace

Table::Table(const Parameters& parameters, Isa isa)
    : parameters_(parameters), waves_(waves_of(parameters, isa)) {}

template <class T>
core::Rows<T> Table::rows(T* table, std::ptrdiff_t stride) const noexcept {
  switch (parameters_.layout) {
    case Layout::interleaved: return {table, nullptr, stride};
    case Layout::concat: return {table, table + waves_.pairs(), stride};
    case Layout::concat_cos_first: return {table + waves_.pairs(), table, stride};
  }
  return {};
}

template <class T>
void Table::pad(std::size_t count, T* table, std::ptrdiff_t stride) const noexcept {
  if (parameters_.d_model % 2 == 0) return;
  for (std::size_t row = 0; row < count; ++row)
    table[static_cast<std::ptrdiff_t>(row) * stride +
          static_cast<std::ptrdiff_t>(parameters_.d_model) - 1] = T{};
}

template <class T>
void Table::range(std::int64_t first, std::size_t count, T* table,
                  std::ptrdiff_t stride) const noexcept {
  assert(table != nullptr || count == 0);
  assert(std::abs(stride) >= static_cast<std::ptrdiff_t>(parameters_.d_model) || count < 2);
  assert(core::are_positions(first, count));
  if (count == 0) return;
  waves_.range(first, count, rows(table, stride));
  pad(count, table, stride);
}

template <class T, class Position>
void Table::list(const Position* positions, std::size_t count, T* table,
                 std::ptrdiff_t stride) const noexcept {
  assert((positions != nullptr && table != nullptr) || count == 0);
  assert(std::abs(stride) >= static_cast<std::ptrdiff_t>(parameters_.d_model) || count < 2);
  assert(core::are_positions(positions, count));
  if (count == 0) return;
  waves_.list(positions, count, rows(table, stride));
  pad(count, table, stride);
}

#define POSPROOF_TABLE(T)                                                                         \
  template void Table::range(std::int64_t, std::size_t, T*, std::ptrdiff_t) const noexcept;       \
  template void Table::list(const std::int32_t*, std::size_t, T*, std::ptrdiff_t) const noexcept; \
  template void Table::list(const std::int64_t*, std::size_t, T*, std::ptrdiff_t) const noexcept;
POSPROOF_TABLE(float)
POSPROOF_TABLE(F16)
POSPROOF_TABLE(BF16)

}  // namespace posproof::optimized::sinusoidal
