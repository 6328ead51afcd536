// Bounds what waits: a request that would wait too long is refused at once, and told when to come again.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace stoa::serve {

class Admission {
 public:
  // `seconds`: the longest wait; `requests`: the most that are open. Owners take turns by tokens: while one
  // is served, each other is served as much at most. `in_turns`: so do the requests of one owner, which
  // share passes; the pace is what measured() says.
  Admission(double seconds, std::int64_t requests, bool in_turns = false)
      : longest_(seconds), most_(requests), in_turns_(in_turns) {}

  struct Ticket {
    std::string owner = {};
    double tokens = 0;  // that are expected
  };
  // A request with this many tokens of prompts and, at most, of answers. Returns what leave() gets back.
  // ApiError 429 with Retry-After.
  Ticket enter(const std::string& owner, std::int64_t prompt_tokens, std::int64_t answer_tokens);
  // It ended; `tokens`: read and written for it, 0 if it failed.
  void leave(const Ticket& ticket, std::int64_t tokens, std::int64_t answer_tokens);
  // A pass of requests in turns.
  void measured(double seconds, std::int64_t tokens);

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    std::int64_t requests = 0;
    double tokens = 0;  // expected of them
  };
  // Tokens that are read and written before a request of so many ends.
  double before(const std::string& owner, double tokens) const;

  const double longest_;
  const std::int64_t most_;
  const bool in_turns_;
  std::mutex mutex_;
  std::int64_t open_ = 0;
  std::map<std::string, Open> owners_;
  double pace_ = 0, answer_ = 0;  // measured: seconds per token while busy, tokens of an answer
  Clock::time_point since_{};     // the last end, or the begin of being busy
};

}  // namespace stoa::serve
