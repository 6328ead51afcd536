// What a server under load is measured by: time to the first token (TTFT), time per further token (TPOT),
// gaps between the pieces of an answer, and goodput: requests per second that keep all limits.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace stoa::serve {

// A request that was sent. Times in seconds since the load began.
struct SentRequest {
  double due = 0;             // when it was to be sent: the time that its latency counts from
  double first = 0, end = 0;  // the first and the last piece of the answer
  std::vector<float> gaps;    // seconds between pieces
  std::int64_t prompt_tokens = 0, tokens = 0;
  int status = 0;     // of HTTP; 0: no answer
  std::string error;  // "": answered to the end

  bool answered() const { return error.empty(); }
  double first_token_seconds() const { return first - due; }
  double seconds() const { return end - due; }
  // For answers of two tokens or more.
  double seconds_per_token() const { return (end - first) / static_cast<double>(tokens - 1); }
};

// Seconds that a good request takes at most.
struct LatencyLimits {
  double first_token = std::numeric_limits<double>::infinity();
  double per_token = std::numeric_limits<double>::infinity();
  double whole = std::numeric_limits<double>::infinity();

  bool keeps(const SentRequest& request) const;
};
// "ttft=1s,tpot=200ms,e2e=30s". ConfigError names what is no such limit.
LatencyLimits parse_limits(const std::string& text);

struct Distribution {
  std::int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, most = 0;
};
// Percentiles are those of the nearest rank.
Distribution distribution_of(std::vector<double> values);

struct LoadReport {
  std::int64_t sent = 0, answered = 0, good = 0;
  double seconds = 0;                               // until the last answer
  std::int64_t prompt_tokens = 0, tokens = 0;       // of answered requests
  Distribution first_token, per_token, gap, whole;  // seconds, of answered requests

  double per_second(std::int64_t count) const {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  }
};
LoadReport report_of(std::span<const SentRequest> requests, double seconds, const LatencyLimits& limits);

}  // namespace stoa::serve
