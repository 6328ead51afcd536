// Requests sent to a server of OpenAI's form as clients would send them: a fixed number of clients, each of
// which asks again when it was answered (closed loop), or arrivals at random whatever the server does (open
// loop, Poisson).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "serve/http/client.h"
#include "serve/load/load_report.h"

namespace stoa::serve {

struct LoadTarget {
  http::Address address;
  http::Headers headers;
  std::string path;  // "/completions", behind the address's
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

struct Load {
  int clients = 0;            // 0: open loop
  double rate = 0;            // of an open loop: requests per second
  std::int64_t requests = 0;  // at most
  double seconds = 0;         // of sending, at most; 0: any
  std::uint64_t seed = 0;     // of the arrivals
};

// Seconds between the start and the arrival of each request of an open loop; `seconds`: none is later; 0:
// any.
std::vector<double> arrivals(double rate, std::int64_t requests, std::uint64_t seed, double seconds = 0);

struct LoadResult {
  std::vector<SentRequest> requests;  // in the order in which they were sent
  double seconds = 0;                 // until the last answer
};
// `body`: of request i, JSON with "stream": true; called from several threads. `progress`: requests that
// ended so far; called from one thread at a time.
LoadResult run_load(const LoadTarget& target, const Load& load,
                    const std::function<std::string(std::int64_t)>& body,
                    const std::function<void(std::int64_t)>& progress);

}  // namespace stoa::serve
