#include "cli/terminal_input.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/error.h"

namespace stoa::cli {

InterruptCounter::InterruptCounter() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  thread_ = std::jthread([this, signals](const std::stop_token& done) {
    const timespec moment{0, 50'000'000};
    while (!done.stop_requested())
      if (sigtimedwait(&signals, nullptr, &moment) == SIGINT && ++count_ >= 2) ::_exit(130);
  });
}

InterruptCounter::~InterruptCounter() {
  thread_.request_stop();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

LineInput::Outcome LineInput::next(std::string& line) {
  for (;;) {
    if (const std::size_t end = pending_.find('\n');
        end != std::string::npos || (ended_ && !pending_.empty())) {
      line = pending_.substr(0, end);
      pending_.erase(0, end == std::string::npos ? end : end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return Outcome::kLine;
    }
    if (ended_) return Outcome::kEnd;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int ready = ::poll(&input, 1, 100);
    if (interrupts_.requested()) {
      pending_.clear();
      return Outcome::kInterrupted;
    }
    if (ready <= 0) continue;
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    require<IoError>(count >= 0, "cannot read standard input: {}", std::strerror(errno));
    if (count == 0) ended_ = true;
    pending_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace stoa::cli
