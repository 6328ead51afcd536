// The command line of Megatron-LM as a configuration: names of its arguments.py (August 2026).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoa::foreign {

struct MegatronArguments {
  std::vector<std::string> overrides;  // key=value of Stoa's configuration
  std::vector<std::string> ignored;    // "--save (files: …)": what has no effect here, with its reason
  std::vector<std::string> notes;      // defaults of Megatron that were filled in
};

// `text`: the arguments as a shell would see them; words before the first option (torchrun, pretrain_gpt.py)
// are ignored, torchrun's own --nproc-per-node and --nnodes say how many ranks run. UsageError: a missing
// value, an argument that must be there, a value that cannot be honoured.
MegatronArguments read_megatron_arguments(std::string_view text);

}  // namespace stoa::foreign
