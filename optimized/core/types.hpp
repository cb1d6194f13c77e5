#pragma once

#include <cstdint>

namespace posproof::optimized {

/// IEEE 754 binary16 as storage.
struct F16 {
  std::uint16_t bits = 0;
};

/// The upper half of a binary32.
struct BF16 {
  std::uint16_t bits = 0;
};

}  // namespace posproof::optimized
