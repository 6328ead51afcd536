#include "cli/interrupt.h"

#include <ctime>

namespace stoa::cli {

InterruptScope::InterruptScope() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);  // a scheduler's warning; mpirun passes it on
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  thread_ = std::jthread([this, signals](const std::stop_token& done) {
    const timespec moment{0, 50'000'000};
    while (!done.stop_requested()) {
      if (sigtimedwait(&signals, nullptr, &moment) < 0) continue;
      requested_.request_stop();
      pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // the next one has its usual effect
      return;
    }
  });
}

InterruptScope::~InterruptScope() {
  thread_.request_stop();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace stoa::cli
