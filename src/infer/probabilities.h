// Softmax of a row of logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace stoa::infer {

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
