#pragma once

#include <cstddef>
#include <cstdint>

/// The cheapest programs that move some bytes, on the widest vectors that the CPU has, whatever Isa
/// a kernel is timed on. Buffers begin at a cache line and are multiples of 64 bytes.
namespace posproof::bench {

/// How stores are made: to the cache, past it, or to the cache with memory asked for ahead.
enum class Stores { plain, streamed, ahead };

void fill(void* to, std::size_t bytes, Stores stores);
/// Flips a bit of every 32 in place.
void change(void* at, std::size_t bytes, Stores stores);
void copy(const void* from, void* to, std::size_t bytes, Stores stores);
/// to = a ^ b.
void combine(const void* a, const void* b, void* to, std::size_t bytes, Stores stores);
std::uint32_t read(const void* from, std::size_t bytes);

/// Fused multiply-adds in registers; returns their floating-point operations.
double multiply_add(std::size_t times, float* keep);

}  // namespace posproof::bench
