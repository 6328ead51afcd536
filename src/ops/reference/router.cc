#include "ops/reference/router.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stoa::ops {
namespace {

constexpr double kTiny = 1e-20;  // DeepSeek-V3's, below the sum of sigmoid scores

double weight_sum(const RouterOptions& options, const double* scores, const std::int32_t* chosen,
                  std::int64_t k) {
  double sum = options.score == RouterScore::kSigmoid ? kTiny : 0;
  for (std::int64_t j = 0; j < k; ++j) sum += scores[chosen[j]];
  return sum;
}

}  // namespace

void router_scores(RouterScore score, const double* logits, std::int64_t experts, double* scores) {
  if (score == RouterScore::kSigmoid) {
    for (std::int64_t e = 0; e < experts; ++e) scores[e] = 1 / (1 + std::exp(-logits[e]));
    return;
  }
  const double most = *std::max_element(logits, logits + experts);
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e) sum += scores[e] = std::exp(logits[e] - most);
  for (std::int64_t e = 0; e < experts; ++e) scores[e] /= sum;
}

void choose_experts(const RouterOptions& options, const double* scores, const double* bias,
                    std::int64_t experts, std::int64_t k, std::int32_t* chosen) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const std::int64_t size = experts / options.groups;
  const auto value = [&](std::int64_t e) { return bias ? scores[e] + bias[e] : scores[e]; };
  // Few experts and fewer choices: repeated search, without memory of its own.
  const auto group_score = [&](std::int64_t g) {
    double best = kNever, second = kNever;
    for (std::int64_t e = g * size; e < (g + 1) * size; ++e) {
      const double x = value(e);
      if (x > best)
        second = best, best = x;
      else if (x > second)
        second = x;
    }
    return size > 1 ? best + second : best;
  };
  // A group takes part when fewer than chosen_groups others stand before it.
  const auto group_open = [&](std::int64_t g) {
    if (options.chosen_groups == options.groups) return true;
    const double own = group_score(g);
    std::int64_t before = 0;
    for (std::int64_t other = 0; other < options.groups; ++other) {
      const double x = group_score(other);
      if (x > own || (x == own && other < g)) ++before;
    }
    return before < options.chosen_groups;
  };
  for (std::int64_t j = 0; j < k; ++j) {
    std::int64_t best = -1;
    for (std::int64_t g = 0; g < options.groups; ++g) {
      if (!group_open(g)) continue;
      for (std::int64_t e = g * size; e < (g + 1) * size; ++e) {
        if (std::find(chosen, chosen + j, static_cast<std::int32_t>(e)) != chosen + j) continue;
        if (best < 0 || value(e) > value(best)) best = e;
      }
    }
    chosen[j] = static_cast<std::int32_t>(best);
  }
}

void router_weights(const RouterOptions& options, const double* scores, const std::int32_t* chosen,
                    std::int64_t k, double* weights) {
  const double factor =
      options.normalize ? options.scale / weight_sum(options, scores, chosen, k) : options.scale;
  for (std::int64_t j = 0; j < k; ++j) weights[j] = scores[chosen[j]] * factor;
}

void router_weights_backward(const RouterOptions& options, const double* scores, const std::int32_t* chosen,
                             const double* dweights, std::int64_t experts, std::int64_t k, double* dscores) {
  std::fill(dscores, dscores + experts, 0.0);
  if (!options.normalize) {
    for (std::int64_t j = 0; j < k; ++j) dscores[chosen[j]] = options.scale * dweights[j];
    return;
  }
  // w_j = scale s_j / S: dw_j/ds_i = scale (delta_ij - s_j / S) / S.
  const double sum = weight_sum(options, scores, chosen, k);
  double dot = 0;
  for (std::int64_t j = 0; j < k; ++j) dot += dweights[j] * scores[chosen[j]];
  for (std::int64_t j = 0; j < k; ++j) dscores[chosen[j]] = options.scale * (dweights[j] - dot / sum) / sum;
}

void balance_backward(RouterScore score, const double* scores, const double* counts, double factor,
                      std::int64_t experts, double* dscores) {
  if (score == RouterScore::kSoftmax) {
    for (std::int64_t e = 0; e < experts; ++e) dscores[e] += factor * counts[e];
    return;
  }
  double sum = kTiny, dot = 0;
  for (std::int64_t e = 0; e < experts; ++e) sum += scores[e], dot += scores[e] * counts[e];
  for (std::int64_t e = 0; e < experts; ++e) dscores[e] += factor * (counts[e] - dot / sum) / sum;
}

void router_scores_backward(RouterScore score, const double* scores, const double* dscores,
                            std::int64_t experts, double* dlogits) {
  if (score == RouterScore::kSigmoid) {
    for (std::int64_t e = 0; e < experts; ++e) dlogits[e] = dscores[e] * scores[e] * (1 - scores[e]);
    return;
  }
  double dot = 0;
  for (std::int64_t e = 0; e < experts; ++e) dot += dscores[e] * scores[e];
  for (std::int64_t e = 0; e < experts; ++e) dlogits[e] = scores[e] * (dscores[e] - dot);
}

}  // namespace stoa::ops
