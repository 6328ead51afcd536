// A rank's training state as a checkpoint, and back: bit for bit.
#pragma once

#include <memory>
#include <vector>

#include "ckpt/checkpoint_writer.h"
#include "ckpt/state_reader.h"
#include "run/model_files.h"
#include "run/training_rank.h"

namespace stoa::run {

// Files that make the model directory complete beside weights and config.json (tokenizer).
using ModelTextFiles = std::vector<ckpt::Snapshot::TextFile>;

// Copies masters, moments and scalars to host memory; `training` gets the scalars.
std::unique_ptr<ckpt::Snapshot> take_snapshot(TrainingRank& rank, const ModelTextFiles& files,
                                              const model::huggingface::SpecialTokens& special,
                                              ckpt::TrainingState& training);

// Restores what take_snapshot() saved. DataError when the checkpoint is of another model.
void restore(TrainingRank& rank, const ckpt::FoundCheckpoint& found);
// Weights only, from any model directory: fine-tuning starts here.
void load_weights(TrainingRank& rank, const ModelFiles& files);

}  // namespace stoa::run
