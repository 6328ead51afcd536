// YAML text -> Node. Bounded: size, nesting, and the number of nodes after aliases are expanded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "config/node.h"

namespace stoa::config {

inline constexpr std::size_t kMaxYamlBytes = 1 << 20;  // text of one file
inline constexpr int kMaxYamlDepth = 64;               // nested mappings and sequences
inline constexpr std::size_t kMaxYamlNodes = 100'000;  // after expansion of aliases

// The one document in `text`. `source` names it in messages. ConfigError ("file:line: …") on a syntax error,
// a duplicate key, a merge key (`<<`), a tag other than !!str, a second document, or where a bound is passed.
// With `repeated`, of a key that is given again the last value counts, as for PyYAML, and the key is added.
Node parse_yaml(std::string_view text, const std::string& source, int layer = 0,
                std::vector<std::string>* repeated = nullptr);

// The same for a file. IoError when it cannot be read.
Node read_yaml(const fs::path& path, int layer = 0);

}  // namespace stoa::config
