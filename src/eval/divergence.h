// How far a model's answers are from those of another with the same vocabulary: of a quantised one from the
// original.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "infer/engine/pass_plan.h"

namespace stoa::eval {

struct Divergence {
  std::int64_t tokens = 0;
  double loss_sum = 0, other_loss_sum = 0;  // nats
  double kl_sum = 0;                        // of the original from the other, nats
  std::int64_t same_top = 0;                // predictions with the same most probable token

  double perplexity() const;
  double other_perplexity() const;
  double kl() const { return kl_sum / static_cast<double>(tokens); }
  double top_agreement() const { return static_cast<double>(same_top) / static_cast<double>(tokens); }
};

// Every token of `ids` from the second on is predicted by both from those before it, in windows of `window`.
// `at`: called with the tokens done. DataError: fewer than two tokens.
Divergence measure_divergence(infer::PassModel& original, infer::PassModel& other,
                              std::span<const std::int32_t> ids, std::int64_t window,
                              const std::function<void(std::int64_t done)>& at);

}  // namespace stoa::eval
