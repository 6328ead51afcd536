// How large a model a machine can train, and the same question asked the other way round: of parameters,
// tokens, devices and days the one that is not given follows from the others.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace stoa::plan {

struct Budget {
  std::optional<double> parameters, tokens, devices, days;
};

struct BudgetAnswer {
  double parameters = 0, tokens = 0, devices = 0, days = 0;
  double flops = 0;        // executed in all
  std::string solved_for;  // "parameters", "tokens", "devices" or "days"
  bool balanced = false;   // two were given: tokens are compute_optimal_tokens(parameters)
};

// Executed floating-point operations per token of a model with so many parameters.
using FlopsPerToken = std::function<double(double parameters)>;

// `device_flops`: sustained per device and second. Of two that are given and do not fix the work alone, the
// model and its tokens follow in the compute-optimal ratio. ConfigError unless one or two are missing and the
// others are positive.
BudgetAnswer solve(const Budget& budget, double device_flops, const FlopsPerToken& flops_per_token);

// "5B", "300b", "1.5T", "126M", "41k", "512": a positive number. UsageError names `option`.
double parse_count(const std::string& text, const std::string& option);

}  // namespace stoa::plan
