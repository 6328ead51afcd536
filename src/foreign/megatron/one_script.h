// A script that reads others (source, .), or is given words and variables, as one text that says it all: the
// text of the other scripts where they are read, the words and variables at the top. Where it starts another
// one (bash, sbatch), the text of that one, with what it is started with at the top.
#pragma once

#include <optional>
#include <string>

#include "foreign/megatron/shell_script.h"

namespace stoa::foreign {

// `command`: what read_shell_script() makes of it. Nothing where the text would not be the same command, or
// where more than a start would be lost: srun, and what the starting script asks of Slurm.
std::optional<std::string> as_one_script(const std::string& text, const std::string& name,
                                         const ScriptCommand& command, const ScriptStart& start);

}  // namespace stoa::foreign
