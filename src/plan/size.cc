#include "plan/size.h"

#include <cctype>
#include <cmath>

#include "base/error.h"
#include "config/value.h"
#include "plan/base_config.h"

namespace stoa::plan {
namespace {

constexpr double kDay = 86400;

// f rises: x with f(x) = target.
double invert(const std::function<double(double)>& f, double target, double low, double high) {
  for (int i = 0; i < 200 && high / low > 1 + 1e-9; ++i) {
    const double middle = std::sqrt(low * high);
    (f(middle) < target ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

// Tokens per parameter where only two of four are given. True: it was so, and is completed.
bool complete(Budget& b, double device_flops, const FlopsPerToken& flops_per_token) {
  const int given =
      b.parameters.has_value() + b.tokens.has_value() + b.devices.has_value() + b.days.has_value();
  const bool positive = b.parameters.value_or(1) > 0 && b.tokens.value_or(1) > 0 &&
                        b.devices.value_or(1) > 0 && b.days.value_or(1) > 0 && device_flops > 0;
  if (given != 2 || (b.parameters && b.tokens) || !positive) return false;
  if (b.parameters) {
    b.tokens = compute_optimal_tokens(*b.parameters);
  } else if (b.tokens) {
    b.parameters = *b.tokens / compute_optimal_tokens(1);
  } else {
    const double flops = *b.days * kDay * *b.devices * device_flops;
    const double near = compute_optimal_parameters(flops);
    const double parameters = invert([&](double n) { return flops_per_token(n) * compute_optimal_tokens(n); },
                                     flops, near / 100, near * 10);
    b.tokens = compute_optimal_tokens(parameters);
  }
  return true;
}

}  // namespace

BudgetAnswer solve(const Budget& given_budget, double device_flops, const FlopsPerToken& flops_per_token) {
  Budget budget = given_budget;
  const bool balanced = complete(budget, device_flops, flops_per_token);
  const int given = budget.parameters.has_value() + budget.tokens.has_value() + budget.devices.has_value() +
                    budget.days.has_value();
  require<ConfigError>(given == 3,
                       "{} of --params, --tokens, --gpus and --days are given: give three, and the fourth is "
                       "computed, or --gpus or --days and one more, for a compute-optimal model",
                       given);
  for (const auto& value : {budget.parameters, budget.tokens, budget.devices, budget.days})
    require<ConfigError>(!value || *value > 0, "a budget of {}: expected a number above 0",
                         value.value_or(0));
  require<ConfigError>(device_flops > 0, "devices of {} FLOP/s: expected more than 0", device_flops);
  BudgetAnswer answer;
  answer.balanced = balanced;
  answer.parameters = budget.parameters.value_or(0);
  answer.tokens = budget.tokens.value_or(0);
  answer.devices = budget.devices.value_or(0);
  answer.days = budget.days.value_or(0);
  if (!budget.parameters) {
    answer.solved_for = "parameters";
    const double target = answer.days * kDay * answer.devices * device_flops / answer.tokens;
    answer.parameters =
        invert([&](double n) { return flops_per_token(n); }, target, target / 6e4, target / 5);
  }
  const double per_token = flops_per_token(answer.parameters);
  const double per_device_day = kDay * device_flops;
  if (!budget.tokens) {
    answer.solved_for = "tokens";
    answer.tokens = answer.days * answer.devices * per_device_day / per_token;
  } else if (!budget.devices) {
    answer.solved_for = "devices";
    answer.devices = std::ceil(per_token * answer.tokens / (per_device_day * answer.days));
  } else if (!budget.days) {
    answer.solved_for = "days";
    answer.days = per_token * answer.tokens / (per_device_day * answer.devices);
  }
  answer.flops = per_token * answer.tokens;
  return answer;
}

double parse_count(const std::string& text, const std::string& option) {
  double unit = 1;
  std::string number = text;
  if (!number.empty()) {
    switch (std::toupper(static_cast<unsigned char>(number.back()))) {
      case 'K':
        unit = 1e3;
        break;
      case 'M':
        unit = 1e6;
        break;
      case 'B':
        unit = 1e9;
        break;
      case 'T':
        unit = 1e12;
        break;
      default:
        break;
    }
    if (unit > 1) number.pop_back();
  }
  const auto value = config::parse_real(number);
  require<UsageError>(
      value.has_value() && *value > 0,
      "{} '{}': expected a number above 0, with K, M, B or T for powers of a thousand (5B, 1.5T)", option,
      text);
  return *value * unit;
}

}  // namespace stoa::plan
