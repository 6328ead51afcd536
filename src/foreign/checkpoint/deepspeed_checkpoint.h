// DeepSpeed's checkpoints: of Megatron-DeepSpeed, whose arguments say what the model is, and of models of
// Hugging Face's, whose config.json does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/torch/torch_file.h"
#include "foreign/checkpoint/foreign_checkpoint.h"

namespace stoa::foreign {

// Universal: a folder for every parameter, whole, with its fp32 value and Adam's moments. `directory` holds
// zero/ and …mp_rank_00_model_states.pt; `given` is it or a folder above it. Errors as open_foreign.
ForeignCheckpoint open_deepspeed_universal(const fs::path& given, const fs::path& directory,
                                           const ForeignOptions& options);
// The folder that latest_universal names; empty: there is no such file.
fs::path newest_universal(const fs::path& directory);

// The file of a folder that says what the parameters and counters are, of rank 0. IoError: none.
fs::path model_states_file(const fs::path& directory);
// Its parameters, in their order. DataError: it does not say.
struct DeepSpeedParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  std::size_t group = 0;  // of the optimizer
};
std::vector<DeepSpeedParameter> deepspeed_parameters(const ckpt::torch::TorchFile& states);

// Every parameter whole, under the name that the program gave it; null: not there.
struct DeepSpeedTensors {
  std::shared_ptr<const ckpt::TensorSource> master, exp_avg, exp_avg_sq;
};
// The model and the counters that `states` (…_model_states.pt) describes, with `tensors`. Where it holds no
// arguments of Megatron-DeepSpeed the model is that of options.config, or of a config.json in `directory`,
// in `given`, or above them. Errors as open_foreign.
ForeignCheckpoint assemble_deepspeed(std::string kind, const fs::path& given, const fs::path& directory,
                                     const ckpt::torch::TorchFile& states, const DeepSpeedTensors& tensors,
                                     const ForeignOptions& options);

}  // namespace stoa::foreign
