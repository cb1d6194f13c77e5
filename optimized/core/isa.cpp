#include "optimized/core/isa.hpp"

#include <cstdlib>
#include <hwy/targets.h>
#include <stdexcept>
#include <string>

namespace posproof::optimized {

thread_local Isa core::ran_on = Isa::scalar;

Isa last_isa() noexcept { return core::ran_on; }

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::scalar: return "scalar";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
  }
  return "";
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas{Isa::scalar};
  const auto supported = hwy::SupportedTargets();
  if ((supported & HWY_AVX2) != 0) isas.push_back(Isa::avx2);
  if ((supported & HWY_AVX3) != 0) isas.push_back(Isa::avx512);
  return isas;
}

Isa isa_from(std::string_view wanted) {
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (wanted != name(isa)) continue;
    for (const Isa available : available_isas())
      if (available == isa) return isa;
    throw std::invalid_argument("isa: this CPU does not have " + std::string(wanted));
  }
  throw std::invalid_argument("isa: found '" + std::string(wanted) +
                              "', allowed are scalar, avx2, avx512");
}

Isa default_isa() {
  static const Isa kIsa = [] {
    const char* forced = std::getenv("POSPROOF_ISA");
    return forced != nullptr && *forced != '\0' ? isa_from(forced) : available_isas().back();
  }();
  return kIsa;
}

}  // namespace posproof::optimized
