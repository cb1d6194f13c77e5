#pragma once

#include <vector>

#include "optimized/core/isa.hpp"
#include "optimized/core/positions.hpp"
#include "optimized/core/types.hpp"

namespace posproof::optimized::alibi {

/// How heads beyond a power of two get slopes: as the authors' code has it, or the paper's geometric
/// sequence for any count.
enum class Rule { press, geometric };

/// What a slope multiplies at query position i and key position j: j − i, −|i − j|, or j.
enum class Form { causal_distance, distance, key };

struct Parameters {
  std::size_t num_heads;
  Rule rule = Rule::press;
  double bias_max = 8;
  std::size_t head_offset = 0;  ///< the heads of one shard
  std::size_t local_heads = 0;  ///< 0: all from head_offset on
};

/// bias[h,i,j] = slope_h·n, slope 2^(−bias_max·(h+1)/num_heads) for a power of two.
/// Press et al. 2022, arXiv:2108.12409, section 3. It never masks.
///
/// fill: every element is correctly rounded to T (float, F16 or BF16) for positions in (−2^31, 2^31).
/// add: the bias rounded to f32, the sum rounded to f32, for F16 and BF16 rounded once more. The same
/// bits whatever the Isa, the alignment and the way that rows are split among calls or threads.
/// Nothing allocates but the constructor. Debug builds assert that positions are in that interval, that
/// no pointer is null and that rows do not overlap each other.
class Bias {
 public:
  /// Throws std::invalid_argument for num_heads < 1, heads beyond num_heads, and bias_max ≤ 0.
  explicit Bias(const Parameters& parameters, Isa isa = default_isa());

  std::size_t heads() const noexcept { return slopes_.size(); }
  /// Slope of a local head, correctly rounded.
  template <class T>
  T slope(std::size_t head) const noexcept;

  template <class T>
  void fill(Form form, Positions queries, Positions keys, Scores<T> bias) const noexcept;
  template <class T>
  void add(Form form, Positions queries, Positions keys, Scores<T> scores) const noexcept;

  /// slope·n, correctly rounded.
  template <class T>
  T value(std::size_t head, std::int64_t n) const noexcept;

 private:
  /// A slope lies between below and above, and its exponent is bias_max·multiple/denominator.
  struct Slope {
    double below, above, multiple, denominator;
  };

  template <class T>
  void make_strip(Form form, std::size_t head, std::int64_t first, std::size_t count,
                  T* strip) const noexcept;
  template <class T, class Strip, class Write>
  void by_rows(Form form, Positions queries, Positions keys, Scores<T> scores,
               const Write& write) const noexcept;

  Isa isa_;
  double bias_max_;
  std::vector<Slope> slopes_;
};

}  // namespace posproof::optimized::alibi
