// The user's own command of Megatron-LM with the changes of a plan: what was given stays, what is changed is
// marked.
#pragma once

#include <string>
#include <vector>

#include "foreign/megatron/command_line.h"
#include "foreign/megatron/writing.h"
#include "foreign/megatron_arguments.h"

namespace stoa::foreign {

struct MegatronPatch {
  std::vector<std::string> launcher;       // words up to and with the program; may be empty
  std::vector<WrittenArgument> arguments;  // in the user's order, then those that are new
  std::vector<std::string> removed;        // "--checkpoint-activations"
  std::vector<std::string> open_words;     // "$EXTRA_ARGS" of a script that does not set it
  bool older = false;                      // it has words that current Megatron-LM does not have

  // "--tensor-model-parallel-size 4 (was 2)", …
  std::vector<std::string> changes() const;
};

// `before` and `after`: what write_megatron() makes of the configuration as given and of the plan.
MegatronPatch patch_megatron(const std::vector<std::string>& words,
                             const std::vector<WrittenArgument>& before,
                             const std::vector<WrittenArgument>& after);

// Ranks of a plan, for the words of torchrun.
struct PlannedRanks {
  std::int64_t nodes = 1, per_node = 1;
};

// The text of a file of the same kind as the source, changed in place; of arguments, and where a script
// cannot be changed in place (`note` says so), a script with the arguments in an array. `title`: what it is,
// one line.
std::string patched_text(const MegatronText& source, MegatronPatch patch, const PlannedRanks& ranks,
                         const std::string& title, std::string& note);

}  // namespace stoa::foreign
