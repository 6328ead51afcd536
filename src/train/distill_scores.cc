#include "train/distill_scores.h"

namespace stoa::train {

watch::Scores divergence_scores(const tune::DistillConfig& config, double divergence, double tokens) {
  if (tokens <= 0) return {};
  const double factor = config.temperature * config.temperature * tokens;
  return {{config.loss == tune::DistillLoss::kJsd ? "jsd" : "kl", divergence / factor}};
}

watch::Scores distillation_scores(const tune::DistillConfig& config, double divergence, double loss,
                                  double tokens) {
  watch::Scores out = divergence_scores(config, divergence, tokens);
  if (config.cross_entropy_weight > 0 && !out.empty())
    out.emplace_back("cross_entropy", (loss - divergence) / (config.cross_entropy_weight * tokens));
  return out;
}

}  // namespace stoa::train
