// Training recipes of NeMo 2 and of Megatron-Bridge: trees of Python classes, as YAML
// (`nemo llm pretrain --factory … --to-yaml`, ConfigContainer.to_yaml), or the name of one of NeMo's own.
// Their keys are fields of Megatron-Core's classes, which have the names of Megatron-LM's arguments: they are
// read as a command line of it, with what is different in nemo2/keys.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"
#include "foreign/purpose.h"

namespace stoa::foreign {

bool is_nemo2(const config::Node& root);

// One of `nemo llm pretrain --factory NAME` (nemo.collections.llm), such as llama3_8b; nothing: no such name.
std::optional<config::Node> nemo2_recipe(std::string_view name);
std::vector<std::string> nemo2_recipe_names();

struct Nemo2Config {
  std::vector<std::string> overrides;  // key=value of Stoa's configuration
  std::vector<std::string> ignored;    // keys without effect, each with its reason
  std::vector<std::string> notes;
};
// `changes`: key=value of the user; those of the recipe (trainer.strategy.…, data.…) are taken from it, the
// others are left. ConfigError: keys that are unknown, or that would change numbers, memory or time and are
// not honoured; a model whose sizes are unknown.
Nemo2Config read_nemo2(config::Node root, std::vector<std::string>& changes, Purpose purpose);

}  // namespace stoa::foreign
