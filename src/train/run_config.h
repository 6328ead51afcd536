// The whole configuration of a run. Each part is declared by the folder that uses it; cli composes the
// schema.
#pragma once

#include <optional>
#include <string>

#include "data/config.h"
#include "model/config.h"
#include "model/estimated_config.h"
#include "optim/config.h"
#include "train/config.h"
#include "train/layout_config.h"
#include "tune/config.h"
#include "tune/distill_config.h"
#include "tune/objective.h"

namespace stoa::train {

struct RunConfig {
  std::string name = "stoa";
  std::optional<std::string> restore_from_path;  // MODEL with the weights from which a new run starts
  TrainerConfig trainer;                         // trainer
  ExpManagerConfig exp_manager;                  // exp_manager
  BatchConfig batch;                             // model.micro_batch_size and similar
  LossScaleConfig loss_scale;                    // model.native_amp_*
  model::ModelConfig model;                      // model
  model::EstimatedConfig estimated;              // model: what plans estimate and no run has
  data::TokenizerConfig tokenizer;               // model.tokenizer
  data::DataConfig data;                         // model.data
  tune::ChatDataConfig chats;                    // model.data
  tune::ObjectiveConfig objective;               // model.objective
  tune::DistillConfig distill;                   // model.distill
  optim::OptimConfig optim;                      // model.optim
  LayoutConfig layout;                           // model.tensor_model_parallel_size and similar
  ShardingConfig sharding;                       // model.optim: how optimizer state is sharded
};

// The run directory; none if the configuration names none.
std::optional<std::string> run_directory(const RunConfig& config);

}  // namespace stoa::train
