// A configuration in the keys of NeMo 1.x, of NeMo 2's recipes and of Megatron-Bridge.
#pragma once

#include <string>
#include <vector>

#include "config/node.h"
#include "foreign/yaml_patch.h"

namespace stoa::foreign {

struct NemoSetting {
  std::string path, value;  // "model.tensor_model_parallel_size", as YAML
};

// `resolved`: every key, as `config show` writes it. What the other has no key for is not in the list: who
// writes it for use reads it back and compares.
std::vector<NemoSetting> write_nemo(const config::Node& resolved);
// Only what a plan changes: a recipe has its model by its class.
std::vector<NemoSetting> write_nemo2(const config::Node& resolved, bool bridge);

// What differs in `after` from `before`.
std::vector<NemoSetting> changed_settings(const std::vector<NemoSetting>& before,
                                          const std::vector<NemoSetting>& after);
// The same as changes of the file that `root` was read from.
std::vector<YamlChange> yaml_changes(const std::vector<NemoSetting>& changed, const config::Node& root);
// A file of NeMo 1.x.
std::string nemo_file_text(const std::vector<NemoSetting>& settings, const std::string& title);

}  // namespace stoa::foreign
