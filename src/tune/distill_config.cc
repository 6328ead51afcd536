#include "tune/distill_config.h"

#include <array>

namespace stoa::tune {

std::span<const config::EnumName<DistillLoss>> enum_names(DistillLoss) {
  static constexpr std::array<config::EnumName<DistillLoss>, 3> kNames{
      {{"forward_kl", DistillLoss::kForwardKl},
       {"reverse_kl", DistillLoss::kReverseKl},
       {"jsd", DistillLoss::kJsd}}};
  return kNames;
}

nn::DistillationLoss DistillConfig::compared_by() const {
  nn::DistillationLoss out;
  out.divergence.kind = loss == DistillLoss::kForwardKl   ? ops::DivergenceKind::kForward
                        : loss == DistillLoss::kReverseKl ? ops::DivergenceKind::kReverse
                                                          : ops::DivergenceKind::kMixture;
  out.divergence.temperature = temperature;
  out.divergence.mixture = jsd_beta;
  out.cross_entropy_weight = cross_entropy_weight;
  return out;
}

void declare(config::Section<DistillConfig>& s) {
  using C = DistillConfig;
  s.field("teacher", &C::teacher)
      .help(
          "Trains by the predictions of this model: a model directory, a checkpoint or a run, of the same "
          "vocabulary. It runs next to the model, in the same layout, on the same tokens, and is not "
          "changed.");
  s.field("kept_logits", &C::kept_logits)
      .help(
          "Trains by the predictions of a teacher that --keep-logits has kept in this directory, of the "
          "most likely tokens of each, without the teacher. If distill.teacher is given besides, the "
          "directory must be of it.");
  s.field("loss", &C::loss)
      .help(
          "How the predictions of model q and teacher p are compared, per token: forward_kl: sum of p log(p "
          "/ "
          "q), which makes q give weight to all that p does; reverse_kl: sum of q log(q / p), which makes q "
          "keep to what p finds likely; jsd: jsd_beta KL(p, m) + (1 - jsd_beta) KL(q, m), m their "
          "mixture.");
  s.field("temperature", &C::temperature)
      .above(0)
      .help(
          "Divides the logits of both before they are compared; the loss is multiplied by its square, so "
          "that "
          "gradients keep their size.");
  s.field("jsd_beta", &C::jsd_beta).range(0.001, 0.999).help("jsd: share of the teacher in the mixture.");
  s.field("cross_entropy_weight", &C::cross_entropy_weight)
      .at_least(0)
      .help(
          "Weight of the cross entropy of the data's own tokens, added to the comparison with the teacher.");
}

}  // namespace stoa::tune
