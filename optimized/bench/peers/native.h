#pragma once
// cos and sin rows of native libraries, each as its users call it.

namespace posproof::peers {

constexpr long kPairs = 64;

/// cos and sin [count,64] of float(begin + t) · inv_freq[i], the product rounded to f32.
using Rows = void (*)(float* cos, float* sin, const float* inv_freq, long begin, long count);

// Where libraries differ by vector width, ask the CPU before the call.
void libmvec_avx2(float* cos, float* sin, const float* inv_freq, long begin, long count);
void libmvec_avx512(float* cos, float* sin, const float* inv_freq, long begin, long count);
void sleef_u10_avx2(float* cos, float* sin, const float* inv_freq, long begin, long count);
void sleef_u10_avx512(float* cos, float* sin, const float* inv_freq, long begin, long count);
void sleef_u35_avx2(float* cos, float* sin, const float* inv_freq, long begin, long count);
void sleef_u35_avx512(float* cos, float* sin, const float* inv_freq, long begin, long count);
void eigen_avx2(float* cos, float* sin, const float* inv_freq, long begin, long count);
void eigen_avx512(float* cos, float* sin, const float* inv_freq, long begin, long count);
/// Dispatches by itself.
void highway(float* cos, float* sin, const float* inv_freq, long begin, long count);

}  // namespace posproof::peers
