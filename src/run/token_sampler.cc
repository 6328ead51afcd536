#include "run/token_sampler.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace stoa::run {

void validate(const SamplingOptions& o) {
  require<ConfigError>(o.temperature >= 0 && std::isfinite(o.temperature),
                       "temperature must be at least 0, got {}", o.temperature);
  require<ConfigError>(o.top_k >= 0, "top-k must be at least 0 (0: all tokens), got {}", o.top_k);
  require<ConfigError>(o.top_p > 0 && o.top_p <= 1, "top-p must be above 0 and at most 1, got {}", o.top_p);
  require<ConfigError>(o.min_p >= 0 && o.min_p <= 1, "min-p must be between 0 and 1, got {}", o.min_p);
  require<ConfigError>(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty),
                       "repetition-penalty must be above 0 (1: none), got {}", o.repetition_penalty);
}

TokenSampler::TokenSampler(const SamplingOptions& options)
    : options_(options), key_(philox_key(options.seed, RandomPurpose::kSampling, "tokens")) {
  validate(options);
}

std::int32_t TokenSampler::next(std::span<const float> logits, std::span<const std::int32_t> seen) {
  scores_.assign(logits.begin(), logits.end());
  if (options_.repetition_penalty != 1.0) {
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    for (const std::int32_t id : seen) {  // from the original logit, so that a repeated id is penalised once
      const float x = logits[id];
      scores_[id] = x > 0 ? x / penalty : x * penalty;
    }
  }
  const auto best = std::max_element(scores_.begin(), scores_.end());
  if (options_.greedy || options_.temperature == 0) return static_cast<std::int32_t>(best - scores_.begin());

  const double highest = *best;
  order_.clear();
  // Tokens less likely than e^-80 of the best cannot be drawn with 32 random bits.
  const double floor = highest - 80.0 * options_.temperature;
  for (std::size_t i = 0; i < scores_.size(); ++i)
    if (scores_[i] >= floor) order_.push_back(static_cast<std::int32_t>(i));
  const auto likelier = [this](std::int32_t a, std::int32_t b) {
    return scores_[a] != scores_[b] ? scores_[a] > scores_[b] : a < b;
  };
  std::sort(order_.begin(), order_.end(), likelier);
  if (options_.top_k > 0 && static_cast<std::int64_t>(order_.size()) > options_.top_k)
    order_.resize(static_cast<std::size_t>(options_.top_k));

  std::vector<double> weights(order_.size());
  double total = 0;
  for (std::size_t i = 0; i < order_.size(); ++i)
    total += weights[i] = std::exp((scores_[order_[i]] - highest) / options_.temperature);
  std::size_t kept = order_.size();
  if (options_.top_p < 1) {
    double sum = 0;
    for (kept = 0; kept < order_.size() && sum < options_.top_p * total; ++kept) sum += weights[kept];
  }
  while (kept > 1 && weights[kept - 1] < options_.min_p * weights[0]) --kept;

  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i) sum += weights[i];
  const double draw = static_cast<double>(philox_word(key_, draws_++)) * 0x1p-32 * sum;
  double reached = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    reached += weights[i];
    if (draw < reached) return order_[i];
  }
  return order_[kept - 1];
}

}  // namespace stoa::run
