// Highway's contrib/math. 1.0.3 has Sin and Cos, no SinCos yet; its stated range is ±39000.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "highway.cpp"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "native.h"

HWY_BEFORE_NAMESPACE();
namespace posproof::peers {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void rows(float* cos, float* sin, const float* inv_freq, long begin, long count) {
  const hn::CappedTag<float, kPairs> d;
  const long lanes = static_cast<long>(hn::Lanes(d));
  for (long t = 0; t < count; ++t)
    for (long i = 0; i < kPairs; i += lanes) {
      const auto position = hn::Set(d, static_cast<float>(begin + t));
      const auto angle = hn::Mul(position, hn::LoadU(d, inv_freq + i));
      hn::StoreU(hn::Cos(d, angle), d, cos + t * kPairs + i);
      hn::StoreU(hn::Sin(d, angle), d, sin + t * kPairs + i);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace posproof::peers
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posproof::peers {
HWY_EXPORT(rows);

void highway(float* cos, float* sin, const float* inv_freq, long begin, long count) {
  HWY_DYNAMIC_DISPATCH(rows)(cos, sin, inv_freq, begin, count);
}
}  // namespace posproof::peers
#endif
