#include "conformance/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace posproof {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestLine = std::size_t{1} << 30;

volatile sig_atomic_t running_group = 0;

void end_group_and_self(int signal_number) {
  if (running_group > 0) kill(-running_group, SIGKILL);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

struct Pipe {
  int read = -1, write = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
  return {ends[0], ends[1]};
}

}  // namespace

void end_child_on_signals() {
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP})
    if (signal(signal_number, end_group_and_self) == SIG_IGN) signal(signal_number, SIG_IGN);
}

std::vector<std::string> split_words(const std::string& command) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (quote == '\'') {
      c == '\'' ? quote = 0 : (word += c, quote);
    } else if (c == '\\' && i + 1 < command.size()) {
      const char next = command[++i];
      // Inside double quotes a backslash is kept but before these.
      if (quote && !std::strchr("\"\\$`", next)) word += c;
      word += next;
      in_word = true;
    } else if (quote) {
      c == quote ? quote = 0 : (word += c, quote);
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_word = true;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      if (in_word) words.push_back(word);
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote) throw std::invalid_argument("cmd: a quote is not closed in: " + command);
  if (in_word) words.push_back(word);
  if (words.empty()) throw std::invalid_argument("cmd: no program is named");
  return words;
}

Child::Child(const std::vector<std::string>& words) {
  signal(SIGPIPE, SIG_IGN);  // a child that has gone is seen by write's EPIPE
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const Pipe in = make_pipe(), out = make_pipe(), failure = make_pipe();
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    dup2(in.read, STDIN_FILENO);
    dup2(out.write, STDOUT_FILENO);
    execvp(arguments[0], arguments.data());
    const int reason = errno;
    if (write(failure.write, &reason, sizeof reason) < 0) _exit(126);
    _exit(127);
  }
  close(in.read);
  close(out.write);
  close(failure.write);
  int reason = 0;
  ssize_t got;
  do got = read(failure.read, &reason, sizeof reason);
  while (got < 0 && errno == EINTR);
  close(failure.read);
  input_ = in.write;
  output_ = out.read;
  if (pid_ < 0 || got > 0) {
    if (pid_ < 0) reason = errno;
    if (pid_ > 0) waitpid(pid_, &status_, 0);
    close(input_);
    close(output_);
    throw std::runtime_error("cmd: " + words[0] + " cannot be started: " + std::strerror(reason));
  }
  setpgid(pid_, pid_);  // whichever of the two comes first
  running_group = pid_;
  fcntl(input_, F_SETFL, O_NONBLOCK);
  fcntl(output_, F_SETFL, O_NONBLOCK);
}

Child::~Child() {
  close_input();
  if (!reaped_) reap(milliseconds(1000));
  kill(-pid_, SIGKILL);  // what it left behind in its group
  running_group = 0;
  if (!reaped_) {
    waitpid(pid_, &status_, 0);
    reaped_ = true;
  }
  close(output_);
}

void Child::close_input() {
  if (input_ >= 0) close(input_);
  input_ = -1;
}

bool Child::reap(milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (waitpid(pid_, &status_, WNOHANG) == 0) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return reaped_ = true;
}

std::string Child::end() {
  if (!reaped_ && !reap(milliseconds(200))) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
    reaped_ = true;
    return "its output closed, the program killed";
  }
  if (WIFSIGNALED(status_))
    return "signal " + std::to_string(WTERMSIG(status_)) + " (" + strsignal(WTERMSIG(status_)) +
           ")";
  return "exit status " + std::to_string(WEXITSTATUS(status_));
}

bool Child::take_line(std::string& line) {
  const std::size_t end = buffer_.find('\n', searched_);
  searched_ = end == std::string::npos ? buffer_.size() : 0;
  if (end == std::string::npos) return false;
  line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return true;
}

Child::Event Child::exchange(const std::string& request, milliseconds timeout, std::string& line) {
  const auto deadline = Clock::now() + timeout;
  std::size_t sent = 0;
  bool accepts = true, speaks = true;
  while (true) {
    if (sent == request.size() && take_line(line)) return Event::line;
    if (!speaks || buffer_.size() > kLongestLine) return Event::ended;
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (left.count() < 0) return Event::silent;
    const bool sending = accepts && sent < request.size();
    pollfd watched[2]{{output_, POLLIN, 0}, {input_, POLLOUT, 0}};
    const int ready = poll(watched, sending ? 2 : 1,
                           static_cast<int>(std::min<std::int64_t>(left.count() + 1, 1000)));
    // A grandchild may hold the pipe open after the program itself has gone.
    if (ready == 0 && !reaped_ && waitpid(pid_, &status_, WNOHANG) == pid_) reaped_ = true;
    if (ready == 0 && reaped_) speaks = false;
    if (sending && (watched[1].revents & (POLLOUT | POLLERR | POLLHUP))) {
      const ssize_t wrote = write(input_, request.data() + sent, request.size() - sent);
      if (wrote > 0) sent += static_cast<std::size_t>(wrote);
      if (wrote < 0 && errno != EAGAIN && errno != EINTR) accepts = false;
    }
    // It no longer listens: what it has said is its last word.
    if (!accepts) sent = request.size();
    if (watched[0].revents & (POLLIN | POLLHUP | POLLERR)) {
      char bytes[65536];
      const ssize_t got = read(output_, bytes, sizeof bytes);
      if (got > 0) buffer_.append(bytes, static_cast<std::size_t>(got));
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        speaks = false;
        sent = request.size();
      }
    }
  }
}

}  // namespace posproof
