// The checkpoints of a run, one under way at a time during training. Every rank calls the same in the
// same order.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "ckpt/checkpoint_writer.h"
#include "ckpt/joint_part.h"
#include "run/rank_checkpoint.h"
#include "run/training_rank.h"
#include "train/trainer_parts.h"
#include "train/validation.h"

namespace stoa::train {

// Counter of a checkpoint whose run had use_mup.
inline constexpr const char* kMupBase = "mup_base_hidden_size";

class RunCheckpoints {
 public:
  // `start_model`: the model that the run started from, whose generation settings are kept; none: fresh
  // weights.
  RunCheckpoints(const TrainerParts& parts, run::TrainingRank& rank, const std::filesystem::path& directory,
                 const std::optional<std::filesystem::path>& start_model);

  // Completes the previous checkpoint, copies the state and starts writing it; with `wait` it also completes
  // it.
  // `figures`: of tasks with this step's weights, on rank 0.
  watch::CheckpointReport save(const Progress& progress, const ValidationLosses& losses,
                               const std::vector<watch::TaskFigure>& figures, bool wait);
  // Whether this rank has written its part of the current checkpoint.
  bool part_is_written() const { return part_ && part_->done(); }
  // Makes a checkpoint of the parts once every rank has written its own.
  void commit_parts();
  // Completes the current checkpoint, if there is one.
  void finish();

 private:
  void begin_part(const ckpt::TrainingState& state);

  const TrainerParts& parts_;
  run::TrainingRank& rank_;
  const std::filesystem::path directory_;
  model::huggingface::SpecialTokens special_;
  run::ModelTexts texts_;                           // tokenizer and generation_config.json, on rank 0
  std::unique_ptr<ckpt::CheckpointWriter> writer_;  // of rank 0
  // A checkpoint of several ranks that is being written.
  std::unique_ptr<ckpt::JointPart> part_;
  ckpt::TrainingState part_state_;
  std::filesystem::path part_directory_;
};

}  // namespace stoa::train
