// Megatron's older format: a folder mp_rank_TT[_PPP][_EEE] for every rank of the model, each with a file of
// torch.save that holds the rank's part of the model and of the optimizer.
#pragma once

#include "ckpt/torch/torch_tree.h"
#include "foreign/checkpoint/megatron_checkpoint.h"

namespace stoa::foreign {

// model_optim_rng.pt of Megatron-LM, with the arguments of the training. Errors as open_foreign.
ForeignCheckpoint open_rank_files(const fs::path& directory, const ForeignOptions& options);

// The same of files that are open: by the folder's name.
struct RankTree {
  fs::path folder;
  std::shared_ptr<const ckpt::torch::TorchTree> tree;
  std::shared_ptr<const ckpt::torch::TorchTree> states = {};  // as RankFile::states
};
ForeignCheckpoint open_rank_trees(const fs::path& directory, const std::vector<RankTree>& trees,
                                  const ForeignOptions& options);

// The parts of ranks, whoever wrote them, in order of pipeline stages and tensor ranks.
struct RankFile {
  std::shared_ptr<const ckpt::TensorSource> tensors;
  std::vector<std::string> names;  // in the order of the model's parameters
  std::vector<std::string>
      chunks;  // prefixes of names: "model.", or "model0.", "model1." of an interleaved pipeline
  std::int64_t tensor_rank = 0, stage = 0, expert_rank = 0;
  // distrib_optim.pt, where the distributed optimizer has the state in a file of its own.
  std::shared_ptr<const ckpt::torch::TorchTree> states = {};
};
// Weights of `files` with their places in the model. DataError: ranks are missing.
MegatronSources rank_file_sources(const std::vector<RankFile>& files, model::ModelKind kind);

// The place of each chunk of each file in the model: (file, chunk) in order.
std::vector<std::vector<MegatronPlace>> rank_places(const std::vector<RankFile>& files);
// Whether a tensor of that name is trained by the optimizer.
bool is_rank_parameter(std::string_view name);

}  // namespace stoa::foreign
