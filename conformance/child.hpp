#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace posproof {

/// Splits as a shell does: quotes and backslashes, no expansion. Throws std::invalid_argument for
/// an open quote or no word at all.
std::vector<std::string> split_words(const std::string& command);

/// From now on an interrupt, a hang-up or a request to terminate ends the group of the running
/// child too, then this process as usual.
void end_child_on_signals();

/// A program with pipes to its standard input and output, in a process group of its own that dies
/// with this object. Standard error is inherited.
class Child {
 public:
  enum class Event { line, ended, silent };

  /// Throws std::runtime_error with the program's name and the reason when it cannot be started.
  explicit Child(const std::vector<std::string>& words);
  /// Closes its input, waits a second, then kills the group.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Sends `request` (may be empty) and reads one line, both at once, so that neither side can
  /// block the other.
  Event exchange(const std::string& request, std::chrono::milliseconds timeout, std::string& line);

  /// What came after the last whole line.
  const std::string& unread() const { return buffer_; }
  /// "exit status 1", "signal 11 (Segmentation fault)". Kills it if it still runs.
  std::string end();

 private:
  bool take_line(std::string& line);
  void close_input();
  bool reap(std::chrono::milliseconds patience);

  pid_t pid_ = -1;
  int input_ = -1, output_ = -1;
  int status_ = 0;
  bool reaped_ = false;
  std::string buffer_;
  std::size_t searched_ = 0;
};

}  // namespace posproof
