// Softmax of a row of logits, and the logarithm of its denominator.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace stoa::infer {

// ln of the sum of exp(logits): logits[i] minus it is the log-probability of i.
inline double log_of_sum(std::span<const float> logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - highest);
  return highest + std::log(sum);
}

inline std::vector<double> probabilities(std::span<const float> logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> out;
  out.reserve(logits.size());
  double sum = 0;
  for (const float x : logits) sum += out.emplace_back(std::exp(static_cast<double>(x) - highest));
  for (double& p : out) p /= sum;
  return out;
}

}  // namespace stoa::infer
