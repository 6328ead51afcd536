// Checkpoints of Megatron-LM and Megatron-Core.
#pragma once

#include <span>
#include <string_view>

#include "ckpt/torch/torch_file.h"
#include "foreign/checkpoint/foreign_checkpoint.h"
#include "foreign/checkpoint/megatron_tensors.h"

namespace stoa::foreign {

// `directory` holds .metadata and common.pt, with the arguments of the training. Errors as open_foreign.
ForeignCheckpoint open_megatron(const fs::path& directory, const ForeignOptions& options);

// The tensors of a torch_dist checkpoint, whoever wrote it: weights and, where they are there, the states of
// the optimizer.
struct MegatronSources {
  std::vector<std::shared_ptr<const ckpt::TensorSource>> alive;
  MegatronTensors weights, master, exp_avg, exp_avg_sq;
};
// Decoder, encoder or both, by the names of the tensors in all parts.
model::ModelKind megatron_kind(std::span<const ckpt::TensorSource* const> parts);
MegatronSources torch_dist_sources(std::shared_ptr<const ckpt::TensorSource> source, model::ModelKind kind);

// Fills description, weights and the tensors of a state out of `sources`.
void assemble(ForeignCheckpoint& out, const fs::path& directory, const model::ModelConfig& config,
              MegatronSources sources);
// Takes the state out of `sources`, whose places in flat buffers were derived and not read, if its master
// weights are those of the model. Empty: done; otherwise why not.
std::string take_fitting_state(ForeignCheckpoint& out, const fs::path& directory,
                               const model::ModelConfig& config, MegatronSources sources);
// An argument that is an int; `otherwise` where there is none.
std::int64_t int_of(const ckpt::torch::Value& args, std::string_view name, std::int64_t otherwise);
// A count: an int, or a tensor of one float, in which PyTorch's optimizers count; nullopt: neither.
std::optional<std::int64_t> counted(const ckpt::torch::TorchFile& file,
                                    const std::optional<ckpt::torch::Value>& value);
// The optimizer's own step: of its groups, or common to all parameters. A chain of optimizers has those of
// its first. nullopt: it says none.
std::optional<std::int64_t> optimizer_step(const ckpt::torch::TorchFile& file,
                                           std::optional<ckpt::torch::Value> optimizer);
// The first optimizer that has them gives them; weights that do not decay are in a group of their own.
std::optional<AdamSettings> adam_settings(std::optional<ckpt::torch::Value> optimizer);

// Counters of a state that assemble() made, out of what every rank of Megatron-LM saves alike.
void read_counters(ForeignCheckpoint& out, const ckpt::torch::TorchFile& common);

}  // namespace stoa::foreign
