// glibc's vector functions, which the compiler calls under -ffast-math. Compiled once for each
// width.
#include <immintrin.h>

#include "native.h"

// The x86-64 vector function ABI's names: b = 128, c = AVX, d = AVX2, e = AVX-512; N lanes, one
// vector.
extern "C" {
#ifdef __AVX512F__
__m512 _ZGVeN16v_sinf(__m512);
__m512 _ZGVeN16v_cosf(__m512);
#else
__m256 _ZGVdN8v_sinf(__m256);
__m256 _ZGVdN8v_cosf(__m256);
#endif
}

namespace posproof::peers {

#ifdef __AVX512F__
void libmvec_avx512(float* cos, float* sin, const float* inv_freq, long begin, long count) {
  for (long t = 0; t < count; ++t)
    for (long i = 0; i < kPairs; i += 16) {
      const __m512 position = _mm512_set1_ps(static_cast<float>(begin + t));
      const __m512 angle = _mm512_mul_ps(position, _mm512_loadu_ps(inv_freq + i));
      _mm512_storeu_ps(cos + t * kPairs + i, _ZGVeN16v_cosf(angle));
      _mm512_storeu_ps(sin + t * kPairs + i, _ZGVeN16v_sinf(angle));
    }
}
#else
void libmvec_avx2(float* cos, float* sin, const float* inv_freq, long begin, long count) {
  for (long t = 0; t < count; ++t)
    for (long i = 0; i < kPairs; i += 8) {
      const __m256 position = _mm256_set1_ps(static_cast<float>(begin + t));
      const __m256 angle = _mm256_mul_ps(position, _mm256_loadu_ps(inv_freq + i));
      _mm256_storeu_ps(cos + t * kPairs + i, _ZGVdN8v_cosf(angle));
      _mm256_storeu_ps(sin + t * kPairs + i, _ZGVdN8v_sinf(angle));
    }
}
#endif

}  // namespace posproof::peers
