#pragma once

#include <string_view>
#include <vector>

namespace posproof::optimized {

/// What a kernel is compiled for. Results have the same bits whichever is taken.
enum class Isa { scalar, avx2, avx512 };

std::string_view name(Isa isa);

/// Those that this CPU has, the slowest first. avx2 needs FMA, F16C and BMI2 too, avx512 F, CD, BW,
/// DQ and VL.
std::vector<Isa> available_isas();

/// The one named, "scalar", "avx2" or "avx512".
/// Throws std::invalid_argument for another name and for one that this CPU does not have.
Isa isa_from(std::string_view name);

/// The fastest that this CPU has, or the one that the environment variable POSPROOF_ISA names; read
/// once.
/// Throws std::invalid_argument as isa_from does.
Isa default_isa();

/// The one that the last kernel of this thread ran on: it is set inside the code compiled for it.
Isa last_isa() noexcept;

namespace core {
extern thread_local Isa ran_on;
}

}  // namespace posproof::optimized
