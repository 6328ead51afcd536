// The words of a command that runs Megatron-LM, as a shell and argparse would take them apart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/megatron/table.h"

namespace stoa::foreign {

struct GivenArgument {
  std::string name;                 // without its dashes
  const MegatronArgument* row{};    // null: unknown
  std::vector<std::string> values;  // of an unknown one all words up to the next argument
  std::string shown = {};           // where it stands for a key of a recipe: "key: value"

  std::string text() const;  // "--name value", or `shown`
};

struct MegatronCommand {
  std::string script;     // pretrain_gpt.py, or "" where only arguments are given
  std::string folder;     // in which it is, if the command says
  std::size_t begin = 0;  // words before the first argument: torchrun … pretrain_gpt.py
  std::optional<std::int64_t> devices, nodes;  // as torchrun or deepspeed start them
  std::vector<GivenArgument> arguments;        // each name once: the last one counts
  std::vector<std::string> open_words;  // $EXTRA where an argument would be, in a script that does not set it
};

// Words of a shell command; UsageError for a quote without its end.
std::vector<std::string> shell_words(std::string_view text);

// UsageError: a value that is missing or one too many.
MegatronCommand read_megatron_command(const std::vector<std::string>& words);

}  // namespace stoa::foreign
