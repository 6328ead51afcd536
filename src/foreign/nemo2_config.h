// Training recipes of NeMo 2.x as YAML (`nemo llm pretrain --factory … --to-yaml`): a tree of Python classes.
#pragma once

#include <string>
#include <vector>

#include "config/node.h"

namespace stoa::foreign {

bool is_nemo2(const config::Node& root);

struct Nemo2Config {
  std::vector<std::string> overrides;  // key=value of Stoa's configuration
  std::vector<std::string> ignored;    // keys without effect, each with its reason
  std::vector<std::string> notes;
};
// ConfigError: the model's sizes are unknown, because its class is not known and the file does not give them.
Nemo2Config read_nemo2(const config::Node& root);

}  // namespace stoa::foreign
