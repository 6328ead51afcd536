// SIGINT, SIGTERM and SIGUSR1 while a command runs: acknowledged at once, obeyed within a time limit.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/console.h"

namespace stoa::cli {

// Receives the signals for as long as it lives. Create it before other threads start: they inherit the
// blocked signals, so that one thread receives them.
class InterruptScope {
 public:
  // What a signal means. A second SIGINT or SIGTERM always ends the process, with status 130.
  struct Manner {
    // How long the command may take to stop by itself after the first SIGINT or SIGTERM. None: the process
    // ends at once, with status 130. SIGUSR1, a scheduler's warning, requests the same stop without a limit;
    // without a grace period it is ignored.
    std::optional<std::chrono::duration<double>> grace;
    std::string words;  // printed at the first signal, after its name; "" prints nothing
    // Printed at the end of the grace period. The function has two seconds.
    std::function<std::string()> last_words;
  };

  // Starts without a grace period: commands that leave no partial output may end at once.
  explicit InterruptScope(Console& console);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // Effective immediately; the grace period of a signal already received counts from its arrival.
  void set(Manner manner);
  // Another process of the command got a signal, and this one is to do what it would do. What `who` is: for
  // messages.
  void told(const std::string& who);
  // For a command that starts to write several files of one result: the first signal lets it finish them.
  void finish_files();
  std::stop_token token() const { return requested_.get_token(); }
  // Restores the signal mask, for a command that handles signals itself.
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  void watch(const std::stop_token& done);
  void receive(int signal);
  void ask(const std::string& signal);
  void end_when_late();
  [[noreturn]] void end(const std::string& words);

  Console& console_;
  sigset_t signals_{}, before_{};
  std::mutex mutex_;
  Manner manner_;
  std::optional<Clock::time_point> asked_;  // by SIGINT or SIGTERM
  std::string first_;                       // its name
  bool was_told_ = false;                   // and has got no signal itself
  std::stop_source requested_;
  std::jthread thread_;  // last: it starts when all else exists
};

}  // namespace stoa::cli
