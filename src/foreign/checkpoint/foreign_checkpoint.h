// Training checkpoints of other programs, opened: what model they hold, its tensors whole, and where they
// have it the state of the optimizer. Nothing is converted: every tensor is a view of those in the files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/tensor_source.h"
#include "model/huggingface/config_json.h"

namespace stoa::foreign {

namespace fs = std::filesystem;

// Of AdamW, as they were at the last step.
struct AdamSettings {
  double learning_rate = 0, weight_decay = 0, beta1 = 0, beta2 = 0, epsilon = 0;
};

// What a run needs to resume besides its weights.
struct OptimizerState {
  std::int64_t iteration = 0;  // steps of the run
  std::int64_t updates = 0;    // of the optimizer, which skips steps that overflow: Adam's t
  std::int64_t samples = 0;    // consumed
  std::optional<double> loss_scale;
  std::optional<AdamSettings> adam;  // where the checkpoint holds them
  // Named like the weights: fp32 weights, and Adam's moments.
  std::unique_ptr<ckpt::TensorSource> master, exp_avg, exp_avg_sq;
};

struct ForeignCheckpoint {
  std::string kind;                                  // "Megatron-Core, torch_dist", for messages
  model::huggingface::ModelDescription description;  // its family names the tensors
  std::unique_ptr<ckpt::TensorSource> weights;
  std::optional<fs::path> small_files;  // a directory with its tokenizer
  std::vector<std::string> notes;       // what the user should know, such as a vocabulary that stays padded
  std::optional<OptimizerState> state;
  std::string why_no_state;  // where there is none

  // A directory with config.json, which is imported as it is: no description is read.
  bool is_huggingface = false;
};

struct ForeignOptions {
  std::optional<fs::path> config;          // where the checkpoint does not hold the model's shape
  std::optional<std::int64_t> vocabulary;  // entries that are not padding
};

// Finds out whose checkpoint it is, and reads all but the tensors. IoError, DataError: none that is read (the
// message says what was found), tensors that are missing, of another shape, or that nobody knows; a model
// that Stoa does not have.
ForeignCheckpoint open_foreign(const fs::path& path, const ForeignOptions& options = {});

// Where the tokenizer of such a MODEL lies: a folder within it, or the directory itself.
fs::path tokenizer_directory(const fs::path& model);

// The weights of a directory of Hugging Face's form (ckpt::open_weights), or of a checkpoint as above.
std::unique_ptr<const ckpt::TensorSource> open_tensors(const fs::path& directory);

}  // namespace stoa::foreign
