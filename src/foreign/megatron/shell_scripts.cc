// Scripts that a shell script reads (source, .) or starts (bash, sbatch, srun).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "foreign/megatron/shell_reading.h"

namespace stoa::foreign {
namespace {

constexpr int kDeepestScript = 8;                   // scripts that start each other
constexpr std::uintmax_t kLargestScript = 1 << 20;  // bytes

bool is_among(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

std::string without_carriage_returns(std::string text) {
  std::size_t to = 0;
  for (std::size_t at = 0; at < text.size(); ++at)
    if (text[at] != '\r' || (at + 1 < text.size() && text[at + 1] != '\n')) text[to++] = text[at];
  text.resize(to);
  return text;
}

std::string read_script(const std::string& path) { return without_carriage_returns(read_text(path)); }

bool ShellReading::other_script(const Words& words, int line) {
  const auto next = std::find_if_not(words.begin(), words.end(),
                                     [](const auto& w) { return assignment_of(w).has_value(); });
  if (next == words.end()) return false;
  const std::string& program = *next;
  const bool reads = program == "source" || program == ".", submits = program == "sbatch";
  const auto script =
      reads ? std::min(next + 1, words.end()) : std::find_if(next, words.end(), is_script_path);
  if (script == words.end()) return false;
  if (!reads && script != next) {
    if (!is_among(program, {"bash", "sh", "srun", "sbatch"})) return false;
    if (std::any_of(next, script, [](const auto& w) { return w == "-c" || w.ends_with(".py"); }))
      return false;
    if (program != "srun" && program != "sbatch" &&
        std::any_of(next + 1, script, [](const auto& w) { return !w.starts_with('-'); }))
      return false;
  }
  ScriptStart start = environment();
  for (auto word = words.begin(); word != next; ++word) {
    auto [name, value] = *assignment_of(*word);
    start.variables[name] = std::move(value);
  }
  if (submits)
    for (auto word = next + 1; word != script; ++word) {
      const auto equals = word->find('=');
      submit_option(start, word->substr(0, equals),
                    equals != std::string::npos ? word->substr(equals + 1)
                    : word + 1 != script        ? word[1]
                                                : "");
    }
  const auto path = find_script(*script);
  if (!path) {
    missing_.insert(shown_word(*script));
    notes_.push_back(fmt::format("{}: {} is not read, for it is not here", where(line), shown_word(*script)));
    return true;
  }
  --files_;
  require<UsageError>(depth_ < kDeepestScript && files_ >= 0,
                      "{}: its scripts read each other without an end", name_);
  command_.of_several = true;
  if (reads) {
    command_.sources.push_back({file_, line, *path});
    source(*path);
    return true;
  }
  start.words = Words(script + 1, words.end());
  if (submits)
    for (const char* set : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"})
      if (const auto it = variables_.find(set); it != variables_.end())
        start.variables[set] = it->second.front();
  start_script(*path, std::move(start), !slurm_ && program != "srun");
  return true;
}

// An option of sbatch: nodes, and what it hands to the script.
void ShellReading::submit_option(ScriptStart& start, std::string_view option, std::string_view value) {
  slurm_option(option, value);
  if (option != "--export") return;
  for (std::size_t from = 0; from <= value.size();) {  // ALL,NAME,NAME=value
    const std::size_t comma = std::min(value.find(',', from), value.size());
    const std::string one(value.substr(from, comma - from));
    if (const auto given = assignment_of(one))
      start.variables[given->first] = given->second;
    else if (const auto known = variables_.find(one); known != variables_.end() && !known->second.empty())
      start.variables[one] = known->second.front();
    from = comma + 1;
  }
}

// Next to the script, next to the file that is read, or where the program runs.
std::optional<std::string> ShellReading::find_script(const std::string& path) const {
  if (path.empty() || has_open(path)) return {};
  std::error_code error;
  for (const fs::path& folder : {fs::path(directory_), fs::path(file_).parent_path(), fs::path()}) {
    const fs::path whole = folder / path;
    if (fs::is_regular_file(whole, error) && fs::file_size(whole, error) <= kLargestScript)
      return whole.string();
  }
  return {};
}

void ShellReading::source(const std::string& path) {
  const std::string text = read_script(path);
  const std::string file = std::exchange(file_, path);
  const auto blocks = std::exchange(blocks_, {});
  const auto status = std::exchange(status_, {});
  ++depth_;
  follow(text);
  --depth_;
  file_ = file;
  blocks_ = blocks;
  status_ = status;
  branching_ = false;
}

// A script that sbatch or bash runs has its own variables, and its exit ends nothing else.
void ShellReading::start_script(const std::string& path, ScriptStart start, bool alone) {
  ShellReading other(path, start, files_, depth_ + 1);
  other.command_.nodes = command_.nodes;
  other.command_.devices = command_.devices;
  other.follow(read_script(path));
  if (!other.command_.words.empty()) {
    ScriptCommand found = other.finish();
    for (std::string& note : found.notes) note = fmt::format("{}: {}", path, note);
    found.notes.insert(found.notes.begin(), command_.notes.begin(), command_.notes.end());
    found.of_several = true;
    if (!found.started) found.started = StartedScript{path, std::move(start)};
    found.started->alone = found.started->alone && alone;
    command_ = std::move(found);
    return;
  }
  missing_.insert(other.missing_.begin(), other.missing_.end());
  for (const std::string& note : other.notes_) notes_.push_back(fmt::format("{}: {}", path, note));
}

ScriptStart ShellReading::environment() const {
  ScriptStart out;
  for (const std::string& name : exported_)
    if (const auto it = variables_.find(name); it != variables_.end() && !it->second.empty())
      out.variables[name] = it->second.front();
  return out;
}

}  // namespace stoa::foreign
