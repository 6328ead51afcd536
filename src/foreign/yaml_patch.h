// Changes of single keys in the text of a YAML file: everything else, comments and order too, stays as it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::foreign {

struct YamlChange {
  std::string path;                  // "model.tensor_model_parallel_size"
  std::optional<std::string> value;  // as YAML; none: the key is taken out
  std::string mark;                  // of the comment behind it: "was 1", "added"
};

// ConfigError where a value is spread over several lines, which are not changed in place.
std::string patch_yaml(std::string text, const std::vector<YamlChange>& changes);

}  // namespace stoa::foreign
