// The command line of Megatron-LM as a configuration. What becomes of each argument:
// foreign/megatron/table.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/purpose.h"

namespace stoa::foreign {

struct MegatronArguments {
  std::vector<std::string> overrides;  // key=value of Stoa's configuration
  std::vector<std::string> ignored;    // "--save (files: …)": what has no effect here, with its reason
  std::vector<std::string> notes;      // defaults of Megatron that were filled in, what --ignore left out
};

struct MegatronOptions {
  std::optional<std::int64_t> ranks;  // that train together, where known: the default of --global-batch-size
  std::vector<std::string> ignore;    // arguments that are left out, with or without dashes
  Purpose purpose = Purpose::kPlan;
  std::vector<std::string> changes =
      {};  // key=value that come after the command: what they set is not needed
  std::map<std::string, std::string, std::less<>> shown =
      {};  // of arguments that stand for keys of a recipe: "model.config.num_layers: 32"
  std::optional<std::int64_t> planned_ranks = {};  // where the command does not say how many start
};

// `text`: the arguments as a shell would see them; words up to a script (torchrun … pretrain_gpt.py) say how
// many ranks run. UsageError: an argument that is unknown, would change numbers, memory or time and is not
// honoured, or must be there; all of those at once.
MegatronArguments read_megatron_arguments(std::string_view text, const MegatronOptions& options = {});
MegatronArguments read_megatron_words(const std::vector<std::string>& words,
                                      const MegatronOptions& options = {});
// What --from-megatron names, as it was written.
struct MegatronText {
  enum class Kind { kArguments, kScript, kYaml };
  Kind kind = Kind::kArguments;
  std::string text, name;                                // name: of the file, in messages
  std::vector<std::string> words;                        // of its command
  std::vector<std::string> notes;                        // of a script: what was not followed
  std::optional<std::int64_t> nodes = {}, devices = {};  // that Slurm starts, where its script says
  bool whole = true;  // the text alone is the command: no other script, no words behind it
};

// UsageError: no such file, no command in it.
MegatronText megatron_text(const std::string& source);
MegatronText megatron_text(MegatronText::Kind kind, std::string text, std::string name);

// The same of arguments, of a script (.sh, .slurm, .sbatch) that `source` names, or of a YAML file with
// MODEL_ARGS. Before the file may stand variables, behind a script its words: "TP=2 bash run.sh 8 7B".
MegatronArguments read_megatron(const MegatronText& text, const MegatronOptions& options = {});
MegatronArguments read_megatron(const std::string& source, const MegatronOptions& options = {});

}  // namespace stoa::foreign
