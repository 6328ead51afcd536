// Writes the tensors of a training as Megatron-Core shards them: a torch_dist folder, which Megatron-LM and
// NeMo keep at different places and with different prefixes of names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "ckpt/export_model.h"
#include "ckpt/tensor_source.h"
#include "ckpt/torch/pickle_writer.h"
#include "foreign/checkpoint/foreign_checkpoint.h"
#include "foreign/checkpoint/megatron_args.h"
#include "model/model_spec.h"

namespace stoa::foreign {

// Sources of canonical tensors (rearranged() to stoa_family()). The last three are null for weights alone.
struct CanonicalState {
  std::shared_ptr<const ckpt::TensorSource> weights, master, exp_avg, exp_avg_sq;
  MegatronCounters counters;
  AdamSettings adam;
};

struct MegatronForm {
  DType type = DType::kBF16;  // of the weights
  std::uint64_t max_file_bytes = ckpt::kDefaultShardBytes;
  // --expert-model-parallel-size of the command that loads it. With several expert ranks, Megatron has an
  // optimizer of its own for the experts, and loads neither form in place of the other.
  std::int64_t expert_ranks = 1;
};

struct MegatronExport {
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;
};

// Whether all layers hold the same tensors: they are stacked then.
bool layers_are_alike(const model::ModelSpec& spec);
// What Megatron's optimizers save of themselves besides tensors. `sharding_type`: the name that the reader
// knows for one whole tensor per parameter.
void write_megatron_optimizer(ckpt::torch::PickleWriter& out, const model::ModelSpec& spec,
                              const CanonicalState& state, std::int64_t expert_ranks,
                              std::string_view sharding_type);
// ConfigError: the model's experts are not divided by `ranks`.
void require_expert_ranks(const model::ModelSpec& spec, std::int64_t ranks);

// Fills `folder`, which exists. `prefix`: before the name of every parameter ("module."). `common`: the file
// common.pt.
MegatronExport write_torch_dist(const model::ModelSpec& spec, const CanonicalState& state,
                                const MegatronForm& form, const std::string& prefix,
                                const std::string& common, const std::filesystem::path& folder,
                                const ckpt::ExportProgress& progress);

}  // namespace stoa::foreign
