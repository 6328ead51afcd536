// Saves a rank's training state as a checkpoint and restores it: bit for bit, between any two layouts.
#pragma once

#include <memory>
#include <vector>

#include "ckpt/adapter_directory.h"
#include "ckpt/checkpoint_writer.h"
#include "ckpt/joint_part.h"
#include "ckpt/state_reader.h"
#include "infer/adapter_files.h"
#include "infer/model_files.h"
#include "run/training_rank.h"

namespace stoa::run {

// Files that complete the model directory in addition to weights and config.json: the tokenizer's.
using ModelTextFiles = std::vector<ckpt::Snapshot::TextFile>;
// With an adapter they complete its directory, which has adapter_config.json instead.
struct ModelTexts {
  ModelTextFiles files;
  ckpt::AdapterBase base;  // of an adapter
};

// Copies step scalars and seed into `training`.
void save_scalars(TrainingRank& rank, ckpt::TrainingState& training);

// For a single rank: copies masters, moments and scalars to host memory; `training` gets the scalars.
std::unique_ptr<ckpt::Snapshot> take_snapshot(TrainingRank& rank, const ModelTexts& texts,
                                              const model::huggingface::SpecialTokens& special,
                                              ckpt::TrainingState& training);

// For several ranks: all tensors of the training state, the same list on every rank.
std::vector<TensorSpec> state_tensors(TrainingRank& rank);
// Copies of the tensors that this rank writes: if several ranks hold the same elements, only one does.
std::vector<ckpt::HeldTensor> take_part(TrainingRank& rank);
// The model files of a checkpoint whose state/ all ranks have written: built from it, tensor by tensor.
std::unique_ptr<ckpt::Snapshot> model_of_state(TrainingRank& rank, const ModelTexts& texts,
                                               const model::huggingface::SpecialTokens& special,
                                               std::filesystem::path directory);

// Restores a checkpoint saved in any layout: each rank reads its parts, and of an adapter's checkpoint the
// weights of found.model besides. DataError if the checkpoint is of a different model. Collective.
void restore(TrainingRank& rank, const ckpt::FoundCheckpoint& found);
// Loads only weights, from any model directory: the start of fine-tuning. Fresh magnitudes become the norms
// of their rows. Collective.
void load_weights(TrainingRank& rank, const infer::ModelFiles& files);
// Loads an adapter, after the weights. Collective.
void load_adapter(TrainingRank& rank, const infer::AdapterFiles& files);

}  // namespace stoa::run
