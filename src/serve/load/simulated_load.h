// A server without a model: requests go through the engine's scheduler, and its passes take as long as they
// were measured or predicted to take.
#pragma once

#include <span>
#include <vector>

#include "serve/load/load_report.h"
#include "serve/load/pass_times.h"

namespace stoa::serve {

struct RequestLength {
  std::int64_t input = 0, output = 0;  // tokens of the prompt (or source) and of the answer, at least 1 each
};
// Reads lines "INPUT,OUTPUT"; empty ones and those that begin with # do not count. DataError names a wrong
// line.
std::vector<RequestLength> read_lengths(const std::string& text, const std::string& name);

// What the clients of one server see whose requests arrive at these times, in seconds; request i has the
// length i, counted around. Prompts share nothing. ConfigError: a length that does not fit the context.
std::vector<SentRequest> simulate_load(const infer::PassLimits& limits, const PassTimes& times,
                                       std::span<const RequestLength> lengths,
                                       std::span<const double> arrivals);

}  // namespace stoa::serve
