// The router of a mixture of experts, one token at a time, in fp64. The CPU backend uses it too: a router has
// few experts, its products are elsewhere.
#pragma once

#include <cstdint>

#include "ops/moe.h"

namespace stoa::ops {

// Scores of all experts from their logits.
void router_scores(RouterScore score, const double* logits, std::int64_t experts, double* scores);
// The k experts with the best score + bias (none: null), best first, ties to the lower index.
void choose_experts(const RouterOptions& options, const double* scores, const double* bias,
                    std::int64_t experts, std::int64_t k, std::int32_t* chosen);
void router_weights(const RouterOptions& options, const double* scores, const std::int32_t* chosen,
                    std::int64_t k, double* weights);

// dscores (all experts) from the gradient of the weights.
void router_weights_backward(const RouterOptions& options, const double* scores, const std::int32_t* chosen,
                             const double* dweights, std::int64_t experts, std::int64_t k, double* dscores);
// dscores += factor * counts, through p = scores (softmax) or scores over their sum (sigmoid).
void balance_backward(RouterScore score, const double* scores, const double* counts, double factor,
                      std::int64_t experts, double* dscores);
void router_scores_backward(RouterScore score, const double* scores, const double* dscores,
                            std::int64_t experts, double* dlogits);

}  // namespace stoa::ops
