#include "optimized/bench/children.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fixtures/core/files.hpp"

namespace posproof::bench {
namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// Standard error of what is started in its life goes to a file in memory.
class Redirected {
 public:
  explicit Redirected(int to) : kept_(dup(STDERR_FILENO)) { dup2(to, STDERR_FILENO); }
  ~Redirected() {
    dup2(kept_, STDERR_FILENO);
    close(kept_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  int kept_;
};

/// Of what a program said, the line that names an error, else the last one.
std::string reason_in(int file) {
  std::string said(1 << 16, '\0');
  const ssize_t size = pread(file, said.data(), said.size(), 0);
  said.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  std::istringstream lines(said);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    last = line;
    if (line.find("Error") != std::string::npos) break;
  }
  // Where this machine has its folders is nobody's business.
  replace_all(last, std::string(POSPROOF_PEERS_BUILD) + "/", "");
  replace_all(last, std::string(POSPROOF_PEERS_SOURCE) + "/", "");
  return last;
}

}  // namespace

Peer::Peer(std::string name, std::vector<std::string> words, const std::string& folder)
    : name_(std::move(name)), errors_(memfd_create("stderr", MFD_CLOEXEC)) {
  words.insert(words.begin(), {"env", "-C", folder});
  std::string line;
  try {
    const Redirected redirected(errors_);
    child_ = std::make_unique<Child>(words);
  } catch (const std::runtime_error& error) {
    why_ = error.what();
    return;
  }
  if (child_->exchange("", std::chrono::minutes(3), line) != Child::Event::line) {
    fail("did not start");
    return;
  }
  const auto start = nlohmann::json::parse(line, nullptr, false);
  if (!start.is_object() || !start.contains("works") || !start["works"].is_array()) {
    fail("did not say what it times");
    return;
  }
  version_ = start.value("version", "");
  for (const auto& work : start["works"])
    if (work.is_string()) works_.insert(work.get<std::string>());
}

Peer::~Peer() {
  child_.reset();
  close(errors_);
}

void Peer::fail(const std::string& what) {
  const std::string how = child_->end(), said = reason_in(errors_);
  why_ = what + ": " + (said.empty() ? how : said);
  child_.reset();
}

std::optional<Timing> Peer::time(const std::string& work, double seconds) {
  if (!has(work)) return {};
  const nlohmann::json request = {{"work", work}, {"seconds", seconds}};
  std::string line;
  const auto patience = std::chrono::seconds(120 + static_cast<int>(10 * seconds));
  if (child_->exchange(request.dump() + "\n", patience, line) != Child::Event::line) {
    fail("gave no time of " + work);
    return {};
  }
  const auto answer = nlohmann::json::parse(line, nullptr, false);
  if (!answer.is_object() || !answer.contains("min_ns") || !answer["min_ns"].is_number()) {
    fail("gave no time of " + work);
    return {};
  }
  return Timing{answer["min_ns"].get<double>(), answer.value("median_ns", 0.0)};
}

std::vector<std::unique_ptr<Peer>> start_peers() {
  const char* named = std::getenv("POSPROOF_PEERS");
  const std::filesystem::path file = named != nullptr ? named : POSPROOF_PEERS_SOURCE "/peers.json";
  const auto list = nlohmann::json::parse(read_file(file), nullptr, false);
  const auto refuse = [&](const std::string& found) -> std::runtime_error {
    return std::runtime_error(file.string() + ": found " + found +
                              ", allowed is [{\"name\": \"…\", \"command\": [\"…\", …]}, …]");
  };
  if (!list.is_array()) throw refuse(list.is_discarded() ? "no JSON" : list.type_name());
  std::vector<std::unique_ptr<Peer>> peers;
  for (const auto& entry : list) {
    std::vector<std::string> words;
    try {
      words = entry.at("command").get<std::vector<std::string>>();
      for (std::string& word : words) replace_all(word, "@BUILD@", POSPROOF_PEERS_BUILD);
      peers.push_back(
          std::make_unique<Peer>(entry.at("name").get<std::string>(), words,
                                 std::filesystem::absolute(file).parent_path().string()));
    } catch (const nlohmann::json::exception&) {
      throw refuse(entry.dump());
    }
  }
  return peers;
}

}  // namespace posproof::bench
