#include "serve/admission.h"

#include <algorithm>
#include <cmath>

#include "base/timing.h"
#include "serve/error.h"

namespace stoa::serve {
namespace {

void follow_mean(double& mean, double value) { mean = mean == 0 ? value : 0.8 * mean + 0.2 * value; }

}  // namespace

double Admission::before(const std::string& owner, double tokens) const {
  const auto own = owners_.find(owner);
  double mine = 0;
  if (own != owners_.end()) {
    mine = own->second.tokens;
    if (in_turns_) mine = std::min(mine, tokens * static_cast<double>(own->second.requests));
  }
  double out = mine;
  for (const auto& [name, open] : owners_)
    if (name != owner) out += std::min(open.tokens, mine + tokens);
  return out;
}

Admission::Ticket Admission::enter(const std::string& owner, std::int64_t prompt_tokens,
                                   std::int64_t answer_tokens) {
  const std::lock_guard lock(mutex_);
  // Few answers are as long as they might be.
  const auto longest = static_cast<double>(answer_tokens);
  const double expected =
      static_cast<double>(prompt_tokens) + (answer_ > 0 ? std::min(longest, 1.5 * answer_) : longest);
  const double wait = before(owner, expected) * pace_;
  if (open_ > 0 && (wait > longest_ || open_ >= most_)) {
    ApiError error(429,
                   fmt::format("the server is busy: {} requests are open, for about {:.0f} s", open_, wait),
                   {}, "overloaded");
    const double over = std::max({1.0, wait - longest_, wait / static_cast<double>(open_)});
    error.headers = {{"Retry-After", fmt::format("{:.0f}", std::ceil(over))}};
    throw error;
  }
  if (open_++ == 0) since_ = Clock::now();
  Open& own = owners_[owner];
  ++own.requests;
  own.tokens += expected;
  return {owner, expected};
}

void Admission::leave(const Ticket& ticket, std::int64_t tokens, std::int64_t answer_tokens) {
  const std::lock_guard lock(mutex_);
  --open_;
  const auto own = owners_.find(ticket.owner);
  own->second.tokens = std::max(0.0, own->second.tokens - ticket.tokens);
  if (--own->second.requests == 0) owners_.erase(own);
  if (tokens > 0 && !in_turns_) {
    follow_mean(pace_, seconds_since(since_) / static_cast<double>(tokens));
    follow_mean(answer_, static_cast<double>(answer_tokens));
  }
  since_ = Clock::now();
}

void Admission::measured(double seconds, std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  if (tokens > 0) follow_mean(pace_, seconds / static_cast<double>(tokens));
}

}  // namespace stoa::serve
