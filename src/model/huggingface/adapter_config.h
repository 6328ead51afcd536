// adapter_config.json of PEFT's directories.
#pragma once

#include <string>
#include <string_view>

#include "model/adapter_plan.h"

namespace stoa::model::huggingface {

inline constexpr const char* kAdapterConfig = "adapter_config.json";
// The parameters of a layer in which transformers 5 holds all of its experts.
inline constexpr const char *kJointGateUp = "gate_up_proj", *kJointDown = "down_proj";

struct AdapterDescription {
  // All but base_model_type, which the file does not say. target_modules are those of the file: which modules
  // have a branch is known better from the tensors.
  PeftConfig config;
  std::string base;                  // base_model_name_or_path: for messages, or where it is a directory
  Task task = Task::kLanguageModel;  // task_type: whose head the adapted model has
  // num_transformer_submodules: with 2, files of virtual tokens have as many rows again behind those in front
  // of the encoder's input, which PEFT does not use.
  std::int64_t submodules = 1;
  // ensure_weight_tying: an embedding of modules_to_save and the head of a model that ties them stay one
  // matrix; without it PEFT leaves the head as it was.
  bool stays_tied = false;
};

// ConfigError: a method or an option that is not supported (the nearest is named), a rank or an alpha of 0.
AdapterDescription read_adapter_config(std::string_view text);
// The adapter of `spec`, trained on the model in `base`.
std::string write_adapter_config(const ModelSpec& spec, const std::string& base);

}  // namespace stoa::model::huggingface
