// Loads and stores of float, F16 and BF16 as floats; included once per target.
#if defined(POSPROOF_OPTIMIZED_PAIRS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef POSPROOF_OPTIMIZED_PAIRS_INL
#undef POSPROOF_OPTIMIZED_PAIRS_INL
#else
#define POSPROOF_OPTIMIZED_PAIRS_INL
#endif

#include "optimized/core/narrow-inl.hpp"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace posproof::optimized::core::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE HWY_ATTR VF load(const float* from) { return hn::LoadU(DF(), from); }
HWY_INLINE HWY_ATTR VF load(const F16* from) {
  const hn::Rebind<hwy::float16_t, DF> dh;
  return hn::PromoteTo(DF(), hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
}
HWY_INLINE HWY_ATTR VF load(const BF16* from) {
  const V16 bits = hn::LoadU(D16(), reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(DU(), bits)));
}
HWY_INLINE HWY_ATTR void save(VF value, float* to) { hn::StoreU(value, DF(), to); }
HWY_INLINE HWY_ATTR void save(VF value, F16* to) {
  hn::StoreU(narrow_f16(value), D16(), reinterpret_cast<std::uint16_t*>(to));
}
HWY_INLINE HWY_ATTR void save(VF value, BF16* to) {
  hn::StoreU(narrow_bf16(value), D16(), reinterpret_cast<std::uint16_t*>(to));
}

}  // namespace posproof::optimized::core::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
