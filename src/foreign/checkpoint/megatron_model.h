// What model the arguments of Megatron-LM describe that a checkpoint holds: argparse's Namespace `args`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/torch/pickle.h"
#include "config/node.h"
#include "model/config.h"

namespace stoa::foreign {

struct MegatronModel {
  model::ModelConfig config;  // with a vocabulary
  std::vector<std::string> notes;
};
// `vocabulary`: entries that are not padding; none: what the arguments say. `source`: for messages.
// DataError: a model that Stoa does not have, or sizes that are missing.
MegatronModel model_of_megatron(const ckpt::torch::Value& arguments, model::ModelKind kind,
                                std::optional<std::int64_t> vocabulary, const std::string& source);

// For messages: a vocabulary of so many entries, of which nothing says how many are padding.
std::string padding_is_kept(std::int64_t entries);

// The model of key=value under `model.`; other keys are ignored. ConfigError names `source`.
model::ModelConfig model_of_overrides(std::span<const std::string> overrides, const std::string& source);
// The same of a tree with such keys.
model::ModelConfig model_of_tree(const config::Node& root, const std::string& source);

}  // namespace stoa::foreign
