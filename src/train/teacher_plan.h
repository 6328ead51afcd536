// The teacher that a configuration names (model.distill), checked against the model that it teaches.
#pragma once

#include <optional>
#include <string>

#include "run/teacher_rank.h"
#include "train/kept_logits.h"
#include "train/run_config.h"
#include "train/trainer_parts.h"

namespace stoa::train {

// None without model.distill.teacher, or if what was kept of one takes its place. ConfigError: not a teacher
// for `student`, or a run that has none.
std::optional<run::TeacherOptions> plan_teacher(const RunConfig& config, const model::ModelSpec& student);
// None without model.distill.kept_logits. ConfigError: as above; DataError: not such a directory.
std::optional<run::TrainingOptions::Kept> plan_kept(const RunConfig& config, const model::ModelSpec& student);

// Reads its weights, next to the model or as the model of a rank. Collective. Warns if its tokenizer is not
// the run's.
void load_teacher(const TrainerParts& parts, run::TrainingRank& rank);
// The checksum of the files that hold its weights and say what model they are.
std::string teacher_checksum(const tune::DistillConfig& config);

// What was kept of a teacher, checked against the run. Every rank calls it. DataError: other rows than the
// run's; ConfigError: another tokenizer, or a teacher that is not model.distill.teacher.
KeptLogits open_kept_logits(const TrainerParts& parts);

}  // namespace stoa::train
