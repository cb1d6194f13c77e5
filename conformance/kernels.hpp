#pragma once

#include <map>
#include <stdexcept>

#include "optimized/core/isa.hpp"
#include "reference/core/implementation.hpp"

namespace posproof {

/// A request that an implementation may leave unanswered.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the kernels of optimized/ offer.
std::map<std::string, DeclaredOperation> kernel_operations();

/// One request, by the kernels on `isa`. Throws Refused and Unsupported.
Tensors run_kernel(optimized::Isa isa, const Request& request);

}  // namespace posproof
