// SIGINT, SIGTERM and SIGUSR1 while a command runs: said in words at once, and no wait without an end.
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
    // Of the end after the first SIGINT or SIGTERM: until then the command may stop by itself. Without, the
    // process ends at once, with status 130. SIGUSR1, a scheduler's warning, asks for the same stop and sets
    // no limit; where the process would end at once it means nothing.
    std::optional<std::chrono::duration<double>> grace;
    std::string words;  // said at the first signal, behind its name; "" says nothing
    // Said at the end of the grace. May take a while; it gets two seconds.
    std::function<std::string()> last_words;
  };

  // Begins with the manner of commands that leave nothing half done: they end at once.
  explicit InterruptScope(Console& console);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // From now on. The grace of a signal that has come already counts from when it came.
  void set(Manner manner);
  // Of a command that begins to write files which belong together: the first signal lets it write them all.
  void finish_files();
  std::stop_token token() const { return requested_.get_token(); }
  // Gives the signals back, for a command that receives them itself.
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  void watch(const std::stop_token& done);
  void receive(int signal);
  void ask(int signal);
  void end_when_late();
  [[noreturn]] void end(const std::string& words);

  Console& console_;
  sigset_t signals_{}, before_{};
  std::mutex mutex_;
  Manner manner_;
  std::optional<Clock::time_point> asked_;  // by SIGINT or SIGTERM
  int first_ = 0;
  std::stop_source requested_;
  std::jthread thread_;  // last: it starts when all else exists
};

}  // namespace stoa::cli
