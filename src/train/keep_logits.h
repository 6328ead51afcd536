// Runs the teacher of a distillation once over the data of a run, in the run's layout, and keeps what it
// predicts (train/kept_logits.h). Neither the student nor anything of its training is in memory.
#pragma once

#include <filesystem>

#include "train/kept_logits.h"
#include "train/trainer_parts.h"

namespace stoa::train {

struct KeepLogits {
  std::filesystem::path directory;
  std::int64_t top = 64;
  DType type = DType::kF16;
};

// Every rank calls it. False: asked to stop; what was written stays, and the same call continues from there.
// ConfigError: the run has no teacher.
bool keep_logits(const TrainerParts& parts, const KeepLogits& how);

}  // namespace stoa::train
