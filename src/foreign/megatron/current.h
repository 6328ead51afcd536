// Arguments of older Megatron-LM, of Megatron-DeepSpeed and of BigScience's copy in the words of current
// Megatron-LM (main of August 2026).
#pragma once

#include <string>
#include <vector>

#include "foreign/megatron/writing.h"

namespace stoa::foreign {

struct CurrentWords {
  std::vector<WrittenArgument> arguments;   // renamed in place, with marks
  std::vector<std::string> removed;         // "--data-impl mmap: Megatron-LM finds it out, or always does so"
  std::vector<std::string_view> said_anew;  // arguments of the plan that say what was removed
};

// What current Megatron-LM does not have is renamed, removed with the reason, or said by arguments of the
// plan. `plan`: what write_megatron() makes of the plan, whose sequence and batch count tokens.
CurrentWords in_current_words(std::vector<WrittenArgument> given, const std::vector<WrittenArgument>& plan);

// Whether current Megatron-LM has no such argument.
bool is_retired(std::string_view name);

}  // namespace stoa::foreign
