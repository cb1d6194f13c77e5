#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace posproof::bench {

/// n values of T in huge pages, zeros, as the peers have theirs (peers/child.h).
template <class T>
std::shared_ptr<T[]> buffer(std::size_t n) {
  constexpr std::size_t kHugePage = std::size_t{1} << 21;
  const std::size_t bytes = (n * sizeof(T) + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  return {static_cast<T*>(memory), [](T* p) { std::free(p); }};
}

}  // namespace posproof::bench
