// Lines that a person types, while Ctrl-C means "stop this", and twice "end".
#pragma once

#include <signal.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

namespace stoa::cli {

// While it lives, SIGINT is counted. The second one without clear() between ends the process with status 130.
// Create it before other threads start: they inherit the blocked signal, so that one thread receives it.
class InterruptCounter {
 public:
  InterruptCounter();
  ~InterruptCounter();
  InterruptCounter(const InterruptCounter&) = delete;
  InterruptCounter& operator=(const InterruptCounter&) = delete;

  bool requested() const { return count_ > 0; }
  void clear() { count_ = 0; }

 private:
  sigset_t before_{};
  std::atomic<int> count_{0};
  std::jthread thread_;
};

// Reads standard input line by line.
class LineInput {
 public:
  explicit LineInput(const InterruptCounter& interrupts) : interrupts_(interrupts) {}
  enum class Outcome { kLine, kEnd, kInterrupted };
  // kInterrupted: Ctrl-C was pressed while it waited; what was typed so far is dropped. IoError when the
  // input cannot be read.
  Outcome next(std::string& line);

 private:
  const InterruptCounter& interrupts_;
  std::string pending_;
  bool ended_ = false;
};

}  // namespace stoa::cli
