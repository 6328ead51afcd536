// A rank's training state as a checkpoint, and back: bit for bit, from any layout into any other.
#pragma once

#include <memory>
#include <vector>

#include "ckpt/checkpoint_writer.h"
#include "ckpt/joint_part.h"
#include "ckpt/state_reader.h"
#include "infer/model_files.h"
#include "run/training_rank.h"

namespace stoa::run {

// Files that make the model directory complete beside weights and config.json (tokenizer).
using ModelTextFiles = std::vector<ckpt::Snapshot::TextFile>;

// Step scalars and seed into `training`.
void save_scalars(TrainingRank& rank, ckpt::TrainingState& training);

// One rank that holds all: copies masters, moments and scalars to host memory; `training` gets the scalars.
std::unique_ptr<ckpt::Snapshot> take_snapshot(TrainingRank& rank, const ModelTextFiles& files,
                                              const model::huggingface::SpecialTokens& special,
                                              ckpt::TrainingState& training);

// Several ranks. All tensors of the training state, the same list on every rank.
std::vector<TensorSpec> state_tensors(TrainingRank& rank);
// Copies of what this rank is to write of them: of copies that several ranks hold, one rank's.
std::vector<ckpt::HeldTensor> take_part(TrainingRank& rank);
// The model files of a checkpoint whose state/ all ranks have written: made out of it, tensor by tensor.
std::unique_ptr<ckpt::Snapshot> model_of_state(TrainingRank& rank, const ModelTextFiles& files,
                                               const model::huggingface::SpecialTokens& special,
                                               std::filesystem::path directory);

// Restores what was saved, in whatever layout: reads this rank's parts. DataError when the checkpoint is of
// another model. Collective.
void restore(TrainingRank& rank, const ckpt::FoundCheckpoint& found);
// Weights only, from any model directory: fine-tuning starts here. Collective.
void load_weights(TrainingRank& rank, const infer::ModelFiles& files);

}  // namespace stoa::run
