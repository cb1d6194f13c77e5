#pragma once

#include "conformance/bugs/core/model.hpp"

namespace posproof::bugs {

/// Attention in double over the reference's steps, where each may be another one.
struct AttentionSteps {
  /// Runs the scheme's operations, on a call without tensors.
  Answering part = right;
  /// Changes q, k or the positions as the scheme's parts and the scores see them. The mask and the
  /// weighted sum see the call's own.
  std::function<void(const Parameters&, Inputs<double>&)> before;
  /// Changes v.
  std::function<void(const Call&, const AttentionSteps&, xt::xarray<double>&)> value;
  bool scales_the_bias = false;
  bool has_value_term = true;
};

Outputs<double> attention_with(const AttentionSteps& steps, const Call& call);

/// x [H,L,D] turned by the scheme's rotation at positions `at`; x itself where it has none.
xt::xarray<double> rotated(const AttentionSteps& steps, const Call& call,
                           const xt::xarray<double>& x, const xt::xarray<std::int64_t>& at);

/// Answers `attention` through `part`, and every other operation by `part` itself.
Answering through_attention(Answering part);

/// Answers `attention` with these steps; other operations are right.
Answering in_attention(AttentionSteps steps);

struct Words {
  const char *kind, *variant, *title, *effect, *mend;
};

/// A model without state that is asked for `operations` alone; attention goes through its parts
/// where it is not one of them.
BugModel model(const Words& words, std::vector<std::string> operations, Answering answering);

}  // namespace posproof::bugs
