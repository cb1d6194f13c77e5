// Eigen's array functions. Compiled once for each width, each with Eigen under a name of its own:
// its templates would otherwise be merged across the widths by the linker.
#ifdef __AVX512F__
#define Eigen EigenAvx512
#else
#define Eigen EigenAvx2
#endif
#include <Eigen/Core>

#include "native.h"

namespace posproof::peers {

#ifdef __AVX512F__
void eigen_avx512(float* cos, float* sin, const float* inv_freq, long begin, long count) {
#else
void eigen_avx2(float* cos, float* sin, const float* inv_freq, long begin, long count) {
#endif
  using Row = Eigen::Array<float, kPairs, 1>;
  const Eigen::Map<const Row> frequencies(inv_freq);
  // Row by row, the angle is still in L1 when both functions read it.
  for (long t = 0; t < count; ++t) {
    const Row angle = static_cast<float>(begin + t) * frequencies;
    Eigen::Map<Row>(cos + t * kPairs) = angle.cos();
    Eigen::Map<Row>(sin + t * kPairs) = angle.sin();
  }
}

}  // namespace posproof::peers
