// While it lives, SIGINT, SIGTERM and SIGUSR1 ask for a stop instead of ending the process. A second one ends
// it.
#pragma once

#include <signal.h>

#include <stop_token>
#include <thread>

namespace stoa::cli {

// Create it before other threads start: they inherit the blocked signals, so that one thread receives them.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  std::stop_token token() const { return requested_.get_token(); }

 private:
  sigset_t before_{};
  std::stop_source requested_;
  std::jthread thread_;
};

}  // namespace stoa::cli
