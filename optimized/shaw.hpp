#pragma once

#include <hwy/aligned_allocator.h>

#include "optimized/core/isa.hpp"
#include "optimized/core/positions.hpp"

namespace posproof::optimized::shaw {

/// What is clipped at query position i and key position j: j − i or i − j.
enum class Sign { key_minus_query, query_minus_key };

/// logits[h,i,j] = q[h,i]·relative_keys[clip(j − i, −k, k) + k], unscaled.
/// Shaw et al. 2018, arXiv:1803.02155, eq. 4.
///
/// f32. Every dot product is one chain of fused multiply-adds over the lanes of the head in their
/// order, so an element is within D·2^-24·Σ|q·a| of the exact one (and D·2^-149 where products are
/// subnormal), and has the same bits whatever the Isa, the alignment and the way that rows are split.
/// Rows of relative_keys that no pair of positions takes are not looked at by its element. Allocates
/// in the constructor only. Debug builds assert that positions are in (−2^31, 2^31), that no pointer is
/// null and that rows of the logits overlap neither each other nor q.
class KeyLogits {
 public:
  /// relative_keys [2k+1, head_dim], packed; copied.
  KeyLogits(const float* relative_keys, std::size_t max_distance, std::size_t head_dim, Sign sign,
            Isa isa = default_isa());

  /// q [heads, Lq, head_dim]; the lanes of one row are adjacent.
  void operator()(Scores<const float> q, std::size_t heads, Positions queries, Positions keys,
                  Scores<float> logits) const noexcept;

 private:
  Isa isa_;
  std::int64_t max_distance_;
  std::size_t head_dim_, padded_;
  Sign sign_;
  hwy::AlignedFreeUniquePtr<float[]> columns_;  ///< relative_keys transposed: [head_dim, padded]
};

/// out[h,i] = Σ_j weights[h,i,j]·relative_values[clip(j − i, −k, k) + k].
/// Shaw et al. 2018, eq. 3.
///
/// f32, within Lk·2^-24·Σ|w·a| of the exact sum (and Lk·2^-149 where products are subnormal). Along
/// runs of positions the weights of each row of relative_values are summed first, in 16 partial sums
/// by j, and the same bits come from every Isa, alignment and way to split rows; along lists the terms
/// are added in the order of j. Rows that no pair of positions takes are not looked at. Never
/// allocates. Debug builds assert what KeyLogits does, of out, weights and relative_values.
/// relative_values [2k+1, head_dim], packed; out [heads, Lq, head_dim].
void value_term(const float* relative_values, std::size_t max_distance, std::size_t head_dim,
                Sign sign, Scores<const float> weights, std::size_t heads, Positions queries,
                Positions keys, Scores<float> out, Isa isa = default_isa()) noexcept;

}  // namespace posproof::optimized::shaw
