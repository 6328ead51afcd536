#include "serve/admission.h"

#include <algorithm>
#include <cmath>

#include "base/timing.h"
#include "serve/error.h"

namespace stoa::serve {
namespace {

void follow_mean(double& mean, double value) { mean = mean == 0 ? value : 0.8 * mean + 0.2 * value; }

}  // namespace

double Admission::enter(std::int64_t prompt_tokens, std::int64_t answer_tokens) {
  const std::lock_guard lock(mutex_);
  const double others =
                   in_turns_ ? std::min(expected_, static_cast<double>(prompt_tokens * open_)) : expected_,
               wait = others * pace_;
  if (open_ > 0 && (wait > longest_ || open_ >= most_)) {
    ApiError error(429,
                   fmt::format("the server is busy: {} requests are open, for about {:.0f} s", open_, wait),
                   {}, "overloaded");
    const double over = std::max({1.0, wait - longest_, wait / static_cast<double>(open_)});
    error.headers = {{"Retry-After", fmt::format("{:.0f}", std::ceil(over))}};
    throw error;
  }
  if (open_++ == 0) since_ = Clock::now();
  // Few answers are as long as they might be.
  const auto longest = static_cast<double>(answer_tokens);
  const double expected =
      static_cast<double>(prompt_tokens) + (answer_ > 0 ? std::min(longest, 1.5 * answer_) : longest);
  expected_ += expected;
  return expected;
}

void Admission::leave(double expected, std::int64_t tokens, std::int64_t answer_tokens) {
  const std::lock_guard lock(mutex_);
  --open_;
  expected_ = open_ == 0 ? 0 : std::max(0.0, expected_ - expected);
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
