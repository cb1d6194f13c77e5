#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/child.hpp"
#include "optimized/bench/timing.hpp"

namespace posproof::bench {

/// A program that times another library's kernels (peers/child.h), or why there is none.
class Peer {
 public:
  /// `words` is started in `folder`. Never throws for a program that is missing or fails.
  Peer(std::string name, std::vector<std::string> words, const std::string& folder);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  /// Empty while it runs.
  const std::string& why() const { return why_; }
  bool has(const std::string& work) const { return why_.empty() && works_.count(work) > 0; }

  /// None when it cannot, from then on for any work.
  std::optional<Timing> time(const std::string& work, double seconds);

 private:
  void fail(const std::string& what);

  std::string name_, version_, why_;
  std::set<std::string> works_;
  std::unique_ptr<Child> child_;
  int errors_ = -1;
};

/// All of peers/peers.json, or of the file that the environment variable POSPROOF_PEERS names.
/// Throws std::runtime_error for a file that is no list of names and commands.
std::vector<std::unique_ptr<Peer>> start_peers();

}  // namespace posproof::bench
