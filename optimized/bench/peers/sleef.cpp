// SLEEF's sincos, 1 and 3.5 ulp. Compiled once for each width: sleef.h shows what the flags allow.
#include <immintrin.h>
#include <sleef.h>

#include "native.h"

namespace posproof::peers {

#ifdef __AVX512F__
namespace {
template <auto sincos>
void rows(float* cos, float* sin, const float* inv_freq, long begin, long count) {
  for (long t = 0; t < count; ++t)
    for (long i = 0; i < kPairs; i += 16) {
      const __m512 position = _mm512_set1_ps(static_cast<float>(begin + t));
      const auto both = sincos(_mm512_mul_ps(position, _mm512_loadu_ps(inv_freq + i)));
      _mm512_storeu_ps(sin + t * kPairs + i, both.x);
      _mm512_storeu_ps(cos + t * kPairs + i, both.y);
    }
}
}  // namespace

void sleef_u10_avx512(float* cos, float* sin, const float* inv_freq, long begin, long count) {
  rows<Sleef_sincosf16_u10avx512f>(cos, sin, inv_freq, begin, count);
}
void sleef_u35_avx512(float* cos, float* sin, const float* inv_freq, long begin, long count) {
  rows<Sleef_sincosf16_u35avx512f>(cos, sin, inv_freq, begin, count);
}
#else
namespace {
template <auto sincos>
void rows(float* cos, float* sin, const float* inv_freq, long begin, long count) {
  for (long t = 0; t < count; ++t)
    for (long i = 0; i < kPairs; i += 8) {
      const __m256 position = _mm256_set1_ps(static_cast<float>(begin + t));
      const auto both = sincos(_mm256_mul_ps(position, _mm256_loadu_ps(inv_freq + i)));
      _mm256_storeu_ps(sin + t * kPairs + i, both.x);
      _mm256_storeu_ps(cos + t * kPairs + i, both.y);
    }
}
}  // namespace

void sleef_u10_avx2(float* cos, float* sin, const float* inv_freq, long begin, long count) {
  rows<Sleef_sincosf8_u10avx2>(cos, sin, inv_freq, begin, count);
}
void sleef_u35_avx2(float* cos, float* sin, const float* inv_freq, long begin, long count) {
  rows<Sleef_sincosf8_u35avx2>(cos, sin, inv_freq, begin, count);
}
#endif

}  // namespace posproof::peers
