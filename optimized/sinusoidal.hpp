#pragma once

#include "optimized/core/waves.hpp"

namespace posproof::optimized::sinusoidal {

/// Which columns of a row hold sin and cos of pair i, of P pairs: (2i, 2i+1), (i, P+i) or (P+i, i).
enum class Layout { interleaved, concat, concat_cos_first };

/// ω_i = base^(−i/(d_model/2)), or base^(−i/(P−1)) as tensor2tensor has it.
enum class Denominator { half, half_minus_one };

struct Parameters {
  std::size_t d_model;
  double base = 10000;
  Layout layout = Layout::interleaved;
  Denominator denominator = Denominator::half;
  bool zero_pad = false;  ///< an odd d_model gets a last column of zeros
  double scale = 1;
};

/// Rows of the sinusoidal table: scale·sin(p·ω_i) and scale·cos(p·ω_i).
/// Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
///
/// Rows have d_model elements, `stride` elements apart. Every element is correctly rounded to T
/// (float, F16 or BF16) for every position in (−2^31, 2^31); position 0 is exact. The same bits
/// whatever the Isa, the alignment and the way that rows are split among calls or threads. Rows of a
/// range are much faster than rows of a list. Nothing allocates but the constructor. Debug builds
/// assert that positions are in that interval, that no pointer is null and that |stride| ≥ d_model.
class Table {
 public:
  /// Throws std::invalid_argument for an odd d_model without zero_pad, d_model < 1 and base ≤ 0, and
  /// std::domain_error for a scale that is neither 0 nor within ±[2^-200, 2^200] and a frequency outside
  /// [2^-200, 2^10].
  explicit Table(const Parameters& parameters, Isa isa = default_isa());

  /// Rows of the positions first, first + 1, …
  template <class T>
  void range(std::int64_t first, std::size_t count, T* table, std::ptrdiff_t stride) const noexcept;
  /// Rows of these positions, int32 or int64.
  template <class T, class Position>
  void list(const Position* positions, std::size_t count, T* table,
            std::ptrdiff_t stride) const noexcept;

 private:
  template <class T>
  core::Rows<T> rows(T* table, std::ptrdiff_t stride) const noexcept;
  template <class T>
  void pad(std::size_t count, T* table, std::ptrdiff_t stride) const noexcept;

  Parameters parameters_;
  core::Waves waves_;
};

}  // namespace posproof::optimized::sinusoidal
