// Times the cos/sin tables of native libraries, one peer a process.
//
//   peers_native list   the names of the peers
//   peers_native NAME   the child of one peer

#include <Eigen/src/Core/util/Macros.h>
#include <gnu/libc-version.h>
#include <hwy/highway.h>

#include "child.h"
#include "native.h"
#ifdef POSPROOF_SLEEF
#include <sleef.h>
#endif

namespace posproof::peers {
namespace {

// As a port of Hugging Face's code; the compiler makes one sincosf of the two calls.
void glibc(float* cos, float* sin, const float* inv_freq, long begin, long count) {
  for (long t = 0; t < count; ++t)
    for (long i = 0; i < kPairs; ++i) {
      const float angle = static_cast<float>(begin + t) * inv_freq[i];
      cos[t * kPairs + i] = std::cos(angle);
      sin[t * kPairs + i] = std::sin(angle);
    }
}

// As llama.cpp makes a rope cache: the angle of the next pair is the rounded product of this one's.
void running_product(float* cos, float* sin, const float*, long begin, long count) {
  static const float ratio = std::pow(10000.0F, -2.0F / (2 * kPairs));
  for (long t = 0; t < count; ++t) {
    float angle = static_cast<float>(begin + t);
    for (long i = 0; i < kPairs; ++i, angle *= ratio) {
      cos[t * kPairs + i] = std::cos(angle);
      sin[t * kPairs + i] = std::sin(angle);
    }
  }
}

struct Peer {
  std::string name, title, version;
  Rows rows;
  /// What its f32 angles allow up to position 131071, against cos and sin of the exact angle.
  double tolerance = 1e-2;
};

std::vector<Peer> peers() {
  std::vector<Peer> result;
  const std::string libc = gnu_get_libc_version();
  result.push_back({"glibc", "glibc sinf, cosf", libc, glibc});
  result.push_back({"running_product", "glibc sinf, cosf of ggml's running product", libc,
                    running_product, 3e-2});
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  const auto add = [&](std::string name, std::string title, std::string version, Rows narrow,
                       Rows wide) {
    if (avx512)
      result.push_back({name, title + ", AVX-512", version, wide});
    else if (avx2)
      result.push_back({name, title + ", AVX2", version, narrow});
  };
  add("libmvec", "glibc libmvec", libc, libmvec_avx2, libmvec_avx512);
#ifdef POSPROOF_SLEEF
  const std::string sleef = std::to_string(SLEEF_VERSION_MAJOR) + '.' +
                            std::to_string(SLEEF_VERSION_MINOR) + '.' +
                            std::to_string(SLEEF_VERSION_PATCHLEVEL);
  add("sleef_u10", "SLEEF u10", sleef, sleef_u10_avx2, sleef_u10_avx512);
  add("sleef_u35", "SLEEF u35", sleef, sleef_u35_avx2, sleef_u35_avx512);
#endif
  result.push_back({"highway", "Highway contrib/math",
                    std::to_string(HWY_MAJOR) + '.' + std::to_string(HWY_MINOR) + '.' +
                        std::to_string(HWY_PATCH),
                    highway});
  add("eigen", "Eigen array",
      std::to_string(EIGEN_WORLD_VERSION) + '.' + std::to_string(EIGEN_MAJOR_VERSION) + '.' +
          std::to_string(EIGEN_MINOR_VERSION),
      eigen_avx2, eigen_avx512);
  return result;
}

std::vector<float> inverse_frequencies() {
  std::vector<float> result;
  for (long i = 0; i < kPairs; ++i)
    result.push_back(static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / kPairs)));
  return result;
}

/// The worst error over rows begin … begin + count - 1.
double worst_error(Rows rows, long begin, long count) {
  const std::vector<float> inv_freq = inverse_frequencies();
  std::vector<float> cos(static_cast<std::size_t>(count * kPairs)), sin(cos.size());
  rows(cos.data(), sin.data(), inv_freq.data(), begin, count);
  double worst = 0;
  for (long t = 0; t < count; ++t)
    for (long i = 0; i < kPairs; ++i) {
      const double angle =
          static_cast<double>(begin + t) * std::pow(10000.0, -static_cast<double>(i) / kPairs);
      const auto k = static_cast<std::size_t>(t * kPairs + i);
      const double error = std::max(std::abs(static_cast<double>(cos[k]) - std::cos(angle)),
                                    std::abs(static_cast<double>(sin[k]) - std::sin(angle)));
      if (!(error <= worst)) worst = error;  // a NaN counts, too
    }
  return worst;
}

Work table(const std::string& name, Rows rows, long begin, long count) {
  return {name, [=]() -> std::function<void()> {
            const auto n = static_cast<std::size_t>(count * kPairs);
            return [=, inv_freq = inverse_frequencies(), cos = buffer<float>(n),
                    sin = buffer<float>(n)] {
              float* c = cos.get();
              float* s = sin.get();
              long first = begin;
              opaque(c), opaque(s), opaque(first);
              rows(c, s, inv_freq.data(), first, count);
            };
          }};
}

}  // namespace
}  // namespace posproof::peers

int main(int argc, char** argv) {
  using namespace posproof::peers;
  const std::string name = argc == 2 ? argv[1] : "";
  const std::vector<Peer> all = peers();
  if (name == "list") {
    for (const Peer& peer : all) std::cout << peer.name << '\n';
    return 0;
  }
  for (const Peer& peer : all) {
    if (peer.name != name) continue;
    for (const auto& [begin, count] :
         {std::pair{0L, 2048L}, std::pair{100000L, 1L}, std::pair{131008L, 64L}}) {
      const double worst = worst_error(peer.rows, begin, count);
      if (worst <= peer.tolerance) continue;
      std::cerr << name << ": off by " << worst << " in " << count << " rows from position "
                << begin << ", allowed " << peer.tolerance << '\n';
      return 1;
    }
    return serve(peer.title, peer.version,
                 {table("table_f32_memory", peer.rows, 0, 131072),
                  table("table_f32_cache", peer.rows, 0, 2048),
                  table("table_f32_row", peer.rows, 100000, 1)});
  }
  std::cerr << "peers_native: no peer \"" << name << "\" here; peers_native list names them\n";
  return 2;
}
