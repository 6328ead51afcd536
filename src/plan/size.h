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
};

// Executed floating-point operations per token of a model with so many parameters.
using FlopsPerToken = std::function<double(double parameters)>;

// `device_flops`: sustained per device and second. ConfigError unless exactly one of the four is missing and
// the others are positive.
BudgetAnswer solve(const Budget& budget, double device_flops, const FlopsPerToken& flops_per_token);

// "5B", "300b", "1.5T", "126M", "41k", "512": a positive number. UsageError names `option`.
double parse_count(const std::string& text, const std::string& option);

}  // namespace stoa::plan
