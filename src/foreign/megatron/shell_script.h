// The command of a shell script that starts Megatron-LM, as far as it is constant: assignments, arrays,
// ${X:-default}, arithmetic, conditions of what the script itself sets. Nothing is executed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoa::foreign {

// In a word, a variable that the script does not set: kOpen name kClose.
inline constexpr char kOpen = '\x01', kClose = '\x02';

// "a$Xb" of a word with such variables, and their names.
std::string shown_word(std::string_view word);
std::vector<std::string> open_variables(std::string_view word);

struct ScriptCommand {
  std::vector<std::string>
      words;  // of the last command that runs a Python program with arguments of Megatron
  std::vector<std::string> notes;  // branches and loops that were not followed
};

// UsageError: no such command, quotes or parentheses without their end. `name` is the script's, in messages.
ScriptCommand read_shell_script(std::string_view text, const std::string& name);

}  // namespace stoa::foreign
