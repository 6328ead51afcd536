// The whole configuration of a run. Each part is declared by the folder that uses it; cli composes the
// schema.
#pragma once

#include <optional>
#include <string>

#include "data/config.h"
#include "model/config.h"
#include "optim/config.h"
#include "train/config.h"
#include "train/layout_config.h"

namespace stoa::train {

struct RunConfig {
  std::string name = "stoa";
  std::optional<std::string> restore_from_path;  // MODEL whose weights a fresh run starts from
  TrainerConfig trainer;                         // trainer
  ExpManagerConfig exp_manager;                  // exp_manager
  BatchConfig batch;                             // model.micro_batch_size and kin
  LossScaleConfig loss_scale;                    // model.native_amp_*
  model::ModelConfig model;                      // model
  data::TokenizerConfig tokenizer;               // model.tokenizer
  data::DataConfig data;                         // model.data
  optim::OptimConfig optim;                      // model.optim
  LayoutConfig layout;                           // model.tensor_model_parallel_size and kin
  ShardingConfig sharding;                       // model.optim: how its state is spread over ranks
};

// The run directory, or none where the configuration names none.
std::optional<std::string> run_directory(const RunConfig& config);

}  // namespace stoa::train
