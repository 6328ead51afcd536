// The teacher that a configuration names (model.distill), checked against the model that it teaches.
#pragma once

#include <optional>

#include "run/teacher_rank.h"
#include "train/run_config.h"
#include "train/trainer_parts.h"

namespace stoa::train {

// None without model.distill.teacher. ConfigError: not a teacher for `student`, or a run that has none.
std::optional<run::TeacherOptions> plan_teacher(const RunConfig& config, const model::ModelSpec& student);

// Reads its weights. Collective. Warns if its tokenizer is not the run's.
void load_teacher(const TrainerParts& parts, run::TrainingRank& rank);

}  // namespace stoa::train
