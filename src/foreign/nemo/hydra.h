// Hydra's `defaults` lists: a configuration that is composed of files in groups, as the launcher's conf/ and
// the examples of NeMo 1.x are.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "config/node.h"

namespace stoa::foreign {

struct Composed {
  config::Node root;                 // without `defaults` and `hydra`
  std::vector<std::string> choices;  // "training: gpt3/5b (conf/training/gpt3/5b.yaml)": files that were read
  std::vector<std::string> left_out;  // groups that were not read: the launcher's stages other than training
};

// Reads `file` and what its `defaults` name. Where they name a group `training`, as the launcher's do, only
// that one is read. Of `overrides`, those that choose an option of a group (`training=gpt3/126m`) are taken
// out. ConfigError: a file that is missing, a form of entry that is not known, files nested too deep.
Composed compose_hydra(const fs::path& file, std::vector<std::string>& overrides);

}  // namespace stoa::foreign
