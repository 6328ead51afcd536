// What is logged of a distillation next to its loss.
#pragma once

#include "tune/distill_config.h"
#include "watch/run_observer.h"

namespace stoa::train {

// Per trained token, of sums over `tokens`: "kl" or "jsd", the divergence from the teacher at the
// temperature, without the factor temperature^2 that the loss has. `divergence` is the sum with it.
watch::Scores divergence_scores(const tune::DistillConfig& config, double divergence, double tokens);
// Those of a training step, with the cross entropy where the loss has a part of it: loss = temperature^2 kl +
// cross_entropy_weight x cross_entropy.
watch::Scores distillation_scores(const tune::DistillConfig& config, double divergence, double loss,
                                  double tokens);

}  // namespace stoa::train
