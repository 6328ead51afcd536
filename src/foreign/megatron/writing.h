// A configuration as arguments of Megatron-LM's pretrain_gpt.py.
#pragma once

#include <string>
#include <vector>

#include "config/node.h"

namespace stoa::foreign {

struct WrittenArgument {
  std::string name;                 // without its dashes
  std::vector<std::string> values;  // none of a flag
  std::string mark = {};            // what a plan changed: "was 1", "added"

  bool operator==(const WrittenArgument& other) const { return name == other.name && values == other.values; }
  std::string text() const;  // "--name value", quoted as a shell wants it
};

// A word as a shell reads it back; variables that a script left open stay variables.
std::string shell_quoted(std::string_view word);

// `resolved`: every key, as `config show` writes it. Data, tokenizer and paths are not in the list. Nor is
// what Megatron-LM itself has no argument for: who writes the list for use reads it back and compares.
std::vector<WrittenArgument> write_megatron(const config::Node& resolved);

}  // namespace stoa::foreign
