#include "foreign/megatron/one_script.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "foreign/megatron/shell_statements.h"
#include "foreign/megatron/writing.h"

namespace stoa::foreign {
namespace {

constexpr int kMostScripts = 64;  // in one text

class OneScript {
 public:
  explicit OneScript(const ScriptCommand& command) : command_(command) {}

  // The text with the scripts that it reads in place of the lines that read them. ConfigError: a line does
  // more.
  std::string of(const std::string& text, const std::string& name) {
    require<ConfigError>(++texts_ <= kMostScripts, "its scripts read each other without an end");
    std::string out;
    int line = 1;
    for (std::size_t at = 0; at < text.size(); ++line) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view one(text.data() + at, end - at);
      at = std::min(end + 1, text.size());
      const auto read = std::find_if(command_.sources.begin(), command_.sources.end(),
                                     [&](const auto& s) { return s.from == name && s.line == line; });
      if (read == command_.sources.end()) {
        out += std::string(one) + "\n";
        continue;
      }
      const std::string_view statement = after_blanks(one);
      require<ConfigError>((statement.starts_with("source ") || statement.starts_with(". ")) &&
                               statement.find_first_of(";&|\\") == std::string_view::npos,
                           "line {} of {} does more than to read a script", line, name);
      std::string other = of(read_script(read->path), read->path);
      require<ConfigError>(other.find("BASH_SOURCE") == std::string::npos && !returns(other),
                           "{} asks where it is, or ends by 'return'", read->path);
      if (other.starts_with("#!")) other.erase(0, std::min(other.find('\n'), other.size() - 1) + 1);
      out +=
          fmt::format("# {}: as it is in {}\n{}# the end of {}\n", statement, read->path, other, read->path);
    }
    return out;
  }

 private:
  static bool returns(std::string_view text) {
    for (std::size_t at = 0; (at = text.find("return", at)) != std::string_view::npos; ++at)
      if ((at == 0 || is_blank(text[at - 1]) || text[at - 1] == ';') &&
          (at + 6 >= text.size() || is_blank(text[at + 6]) || text[at + 6] == ';'))
        return true;
    return false;
  }

  const ScriptCommand& command_;
  int texts_ = 0;
};

// Behind the comments at the top, and behind the lines for Slurm, which reads none after the first command.
std::size_t header_end(std::string_view text) {
  std::size_t out = 0;
  bool top = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = text.substr(at, end - at);
    const bool comment = line.starts_with('#');
    if (!comment && !after_blanks(line).empty() && after_blanks(line) != "\n") break;
    top = top && comment;
    if (top || line.starts_with("#SBATCH")) out = end;
    at = end;
  }
  return out;
}

}  // namespace

std::optional<std::string> as_one_script(const std::string& text, const std::string& name,
                                         const ScriptCommand& command, const ScriptStart& start) {
  if (command.started && !command.started->alone) return {};
  try {
    const std::string base = command.started ? command.started->path : name;
    const ScriptStart& with = command.started ? command.started->start : start;
    std::string out = OneScript(command).of(command.started ? read_script(base) : text, base);
    std::string given = command.started ? fmt::format("# {}, as {} starts it\n", base, name) : "";
    for (const auto& [variable, value] : with.variables)  // but for what Slurm sets
      if (!command.started || (variable != "SLURM_NNODES" && variable != "SLURM_JOB_NUM_NODES"))
        given += fmt::format("export {}={}\n", variable, shell_quoted(value));
    if (with.words && !with.words->empty()) {
      given += "set --";
      for (const std::string& word : *with.words) given += " " + shell_quoted(word);
      given += "\n";
    }
    const std::size_t at = header_end(out);
    out.insert(at, given);
    ScriptCommand alone = read_shell_script(out, base);
    // What sbatch is given and the script itself does not say.
    if (command.started && !alone.nodes && command.nodes) {
      out.insert(at, fmt::format("#SBATCH --nodes={}\n", *command.nodes));
      alone = read_shell_script(out, base);
    }
    if (alone.of_several || alone.words != command.words || alone.nodes != command.nodes ||
        alone.devices != command.devices)
      return {};
    return out;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace stoa::foreign
