// `model.distill`: training by the predictions of a teacher (nn/teacher.h).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "config/schema.h"
#include "nn/teacher.h"

namespace stoa::tune {

enum class DistillLoss : std::uint8_t { kForwardKl, kReverseKl, kJsd };
std::span<const config::EnumName<DistillLoss>> enum_names(DistillLoss);

struct DistillConfig {
  std::optional<std::string> teacher;  // MODEL
  // A directory of train/kept_logits.h: what was kept of a teacher, which then is not run.
  std::optional<std::string> kept_logits;
  DistillLoss loss = DistillLoss::kForwardKl;
  double temperature = 1;
  double jsd_beta = 0.5;
  double cross_entropy_weight = 0;

  bool active() const { return teacher || kept_logits; }
  nn::DistillationLoss compared_by() const;
};
void declare(config::Section<DistillConfig>& s);

}  // namespace stoa::tune
