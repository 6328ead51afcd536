// Log-probabilities of the tokens that may come next, for the engine and for evaluations of texts: what a
// server answers has every digit of an evaluation of the model's files. infer/probabilities.h computes the
// exponentials in fp64, for measurements.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "infer/token_sampler.h"

namespace stoa::infer {

class LogProbabilities {
 public:
  // `logits` of one position; they outlive this.
  explicit LogProbabilities(std::span<const float> logits)
      : logits_(logits), likeliest_(infer::likeliest(logits)) {
    const float highest = logits[static_cast<std::size_t>(likeliest_)];
    double sum = 0;
    for (const float x : logits) sum += static_cast<double>(std::exp(x - highest));
    log_of_sum_ = static_cast<double>(highest) + std::log(sum);
  }

  std::int32_t likeliest() const { return likeliest_; }
  float of(std::int32_t id) const {
    return static_cast<float>(static_cast<double>(logits_[static_cast<std::size_t>(id)]) - log_of_sum_);
  }

 private:
  std::span<const float> logits_;
  std::int32_t likeliest_;
  double log_of_sum_ = 0;
};

}  // namespace stoa::infer
