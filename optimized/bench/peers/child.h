#pragma once
// The child's side of the benchmark: times works that its parent names, a JSON object a line.

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace posproof::peers {

/// n values of T in huge pages, filled with zeros: a peer pays neither page faults nor TLB misses.
template <typename T>
std::shared_ptr<T[]> buffer(std::size_t n) {
  constexpr std::size_t kHugePage = std::size_t{1} << 21;
  const std::size_t bytes = (n * sizeof(T) + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, bytes);
  if (!memory) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::fill_n(static_cast<char*>(memory), bytes, 0);
  return {static_cast<T*>(memory), [](T* p) { std::free(p); }};
}

/// Makes the compiler believe that x was read and changed.
template <typename T>
void opaque(T& x) {
  asm volatile("" : "+r"(x) : : "memory");
}

/// One named work. prepare makes its inputs and returns what one run does; its memory goes with it.
struct Work {
  std::string name;
  std::function<std::function<void()>()> prepare;
  /// How often what prepare returns does the work.
  long repeats = 1;
};

/// Warms up once, then repeats the work until `seconds` have passed, 3 times at least.
inline nlohmann::json timed(const Work& work, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  };
  const std::function<void()> run = work.prepare();
  run();
  // A batch takes 50 us or more, against a clock of about 30 ns; its own warm-up is the first
  // estimate.
  long batch = 1;
  for (double spent = 0; batch < (1L << 24); batch *= 2) {
    const auto start = Clock::now();
    for (long i = 0; i < batch; ++i) run();
    spent = since(start);
    if (spent >= 5e4) break;
  }
  std::vector<double> nanoseconds;
  for (const auto start = Clock::now(); nanoseconds.size() < 3 || since(start) < seconds * 1e9;) {
    const auto begin = Clock::now();
    for (long i = 0; i < batch; ++i) run();
    nanoseconds.push_back(since(begin) / static_cast<double>(batch * work.repeats));
  }
  std::sort(nanoseconds.begin(), nanoseconds.end());
  const std::size_t n = nanoseconds.size();
  return {{"work", work.name},
          {"min_ns", nanoseconds.front()},
          {"median_ns", (nanoseconds[(n - 1) / 2] + nanoseconds[n / 2]) / 2},
          {"runs", static_cast<long>(n) * batch * work.repeats}};
}

/// Answers until the end of the input; returns the exit status.
inline int serve(const std::string& peer, const std::string& version,
                 const std::vector<Work>& works) {
  nlohmann::json start = {{"peer", peer}, {"version", version}, {"works", nlohmann::json::array()}};
  for (const Work& work : works) start["works"].push_back(work.name);
  std::cout << start << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto request = nlohmann::json::parse(line, nullptr, false);
    if (!request.is_object() || !request.contains("work") || !request["work"].is_string()) {
      std::cerr << peer << ": not a request: " << line << '\n';
      return 2;
    }
    const std::string name = request["work"];
    const auto work =
        std::find_if(works.begin(), works.end(), [&](const Work& w) { return w.name == name; });
    const nlohmann::json answer =
        work == works.end()
            ? nlohmann::json{{"work", name}, {"unsupported", peer + " has no such kernel"}}
            : timed(*work, request.value("seconds", 0.3));
    std::cout << answer << std::endl;
  }
  return 0;
}

}  // namespace posproof::peers
