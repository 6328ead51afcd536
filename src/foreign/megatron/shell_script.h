// The command of a shell script that starts Megatron-LM, as far as it is constant: assignments, arrays,
// ${X:-default}, arithmetic, conditions of what the script itself sets, scripts that it reads or starts.
// Nothing is executed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::foreign {

// In a word, a variable that the script does not set: kOpen name kClose.
inline constexpr char kOpen = '\x01', kClose = '\x02';

std::string open_variable(std::string_view name);
bool has_open(std::string_view word);
// "a$Xb" of a word with such variables, and their names.
std::string shown_word(std::string_view word);
std::vector<std::string> open_variables(std::string_view word);

// A text without the carriage returns of Windows at the ends of its lines.
std::string without_carriage_returns(std::string text);
// The text of a script, without these.
std::string read_script(const std::string& path);

// Whether the path ends as those of shell scripts do.
bool is_script_path(std::string_view path);

// What a script is started with: "TP=2 bash train.sh 8 7B".
struct ScriptStart {
  std::map<std::string, std::string> variables;     // of its environment
  std::optional<std::vector<std::string>> words{};  // $1, $2, …; none: not known

  bool empty() const { return variables.empty() && !words; }
};

// A script that another one reads: the one, its line, and the file.
struct ReadScript {
  std::string from;
  int line = 0;
  std::string path;
};

// The script with the command in it, which another one starts as a command of its own.
struct StartedScript {
  std::string path;
  ScriptStart start;
  // Nothing else would be lost of those that start it: none asks Slurm for ranks, or starts it by srun.
  bool alone = true;
};

struct ScriptCommand {
  // The last command that runs a Python program with arguments of Megatron.
  std::vector<std::string> words;
  std::vector<std::string> notes;              // branches and loops that were not followed
  std::optional<std::int64_t> nodes, devices;  // that Slurm starts: nodes, and tasks on each
  bool of_several = false;                     // other scripts were read for it
  std::optional<StartedScript> started;        // or started, of which this is the last
  std::vector<ReadScript> sources;             // that were read
};

// UsageError: no such command, quotes or parentheses without their end. `name` is the script's, in messages;
// other scripts are searched for next to it.
ScriptCommand read_shell_script(std::string_view text, const std::string& name,
                                const ScriptStart& start = {});

}  // namespace stoa::foreign
