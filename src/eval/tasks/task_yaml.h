// YAML files of tasks, read as lm-evaluation-harness reads them: PyYAML's rules for plain scalars (YAML 1.1),
// `include`, and functions by name.
#pragma once

#include "base/file.h"
#include "eval/python/text.h"

namespace stoa::eval {

// `!function utils.process_docs` in a file of `directory` is {"!function": "utils.process_docs", "directory":
// "…"}.
bool is_function(const Json& value);

// A mapping; `include` is replaced by what it names, local keys win. ConfigError "file:line: …".
Json read_task_yaml(const fs::path& path);
// The same without following `include`.
Json parse_task_yaml(std::string_view text, const fs::path& path);

}  // namespace stoa::eval
