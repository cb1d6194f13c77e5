#include "reference/core/operation.hpp"

namespace posproof::reference::nope {

Scheme scheme() {
  Scheme nope{"nope", "No position encoding", "Kazemnejad et al. 2023, arXiv:2305.19466", {}};
  nope.acts_in_attention = true;
  return nope;
}

}  // namespace posproof::reference::nope
