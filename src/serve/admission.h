// Bounds what waits: a request that would wait too long is refused at once, and told when to come again.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace stoa::serve {

class Admission {
 public:
  // `seconds`: the longest wait; `requests`: the most that are open. `in_turns`: requests share passes and
  // take turns by tokens, so that none waits for longer than its own share of all that are open; the pace is
  // what measured() says.
  Admission(double seconds, std::int64_t requests, bool in_turns = false)
      : longest_(seconds), most_(requests), in_turns_(in_turns) {}

  // A request with this many tokens of prompts and, at most, of answers. Returns what leave() gets back.
  // ApiError 429 with Retry-After.
  double enter(std::int64_t prompt_tokens, std::int64_t answer_tokens);
  // It ended; `tokens`: read and written for it, 0 if it failed.
  void leave(double expected, std::int64_t tokens, std::int64_t answer_tokens);
  // A pass of requests in turns.
  void measured(double seconds, std::int64_t tokens);

 private:
  using Clock = std::chrono::steady_clock;
  const double longest_;
  const std::int64_t most_;
  const bool in_turns_;
  std::mutex mutex_;
  std::int64_t open_ = 0;
  double expected_ = 0;           // tokens of what is open
  double pace_ = 0, answer_ = 0;  // measured: seconds per token while busy, tokens of an answer
  Clock::time_point since_{};     // the last end, or the begin of being busy
};

}  // namespace stoa::serve
