#include "foreign/megatron/shell_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/value.h"
#include "foreign/megatron/command_line.h"
#include "foreign/megatron/shell_reading.h"

namespace stoa::foreign {
namespace {

std::size_t program_of(const std::vector<std::string>& words) {
  return static_cast<std::size_t>(
      std::find_if(words.begin(), words.end(), [](const std::string& w) { return w.ends_with(".py"); }) -
      words.begin());
}
// Where the words of another command begin, in a text that was run as one.
void cut_redirections(std::vector<std::string>& words, std::size_t program) {
  const auto end = std::find_if(
      words.begin() + static_cast<std::ptrdiff_t>(program), words.end(), [](const std::string& w) {
        return w == "|" || w == "&" || w == "2>&1" || w == "2>" || w.starts_with("&>") || w.starts_with(">");
      });
  words.erase(end, words.end());
}
// Three known arguments among the words from the program on.
bool of_megatron(const std::vector<std::string>& words, std::size_t program) {
  return std::count_if(words.begin() + static_cast<std::ptrdiff_t>(program), words.end(),
                       [](const std::string& w) {
                         return w.starts_with("--") &&
                                find_megatron_argument(std::string_view(w).substr(
                                    2, w.find('=') == w.npos ? w.npos : w.find('=') - 2)) != nullptr;
                       }) >= 3;
}

}  // namespace

ShellReading::ShellReading(std::string name, const ScriptStart& start, int& files, int depth)
    : name_(std::move(name)), file_(name_), given_(start.words), depth_(depth), files_(files) {
  const auto slash = name_.rfind('/');
  directory_ = slash == std::string::npos ? "." : name_.substr(0, slash);
  for (const auto& [variable, value] : start.variables) {
    variables_[variable] = {value};
    exported_.insert(variable);
  }
}

void ShellReading::follow(std::string_view text) {
  slurm_header(text);
  for (const ShellStatement& s : shell_statements(text, file_)) {
    if (stopped_ || returned_) break;
    take(s);
  }
  returned_ = false;
}

ScriptCommand ShellReading::finish() {
  if (command_.words.empty()) take_variables();
  if (command_.words.empty()) {
    std::string why;
    if (!missing_.empty())
      why = fmt::format(": it runs {}, which is not here", fmt::join(missing_, ", "));
    else if (stopped_)
      why = ": it ends by 'exit' before";
    if (!notes_.empty()) why += fmt::format("; {}", fmt::join(notes_, "; "));
    fail<UsageError>("{}: no command in it runs a Python program with arguments of Megatron-LM{}", name_,
                     why);
  }
  if (!unset_.empty())
    notes_.push_back(fmt::format("not set by the script, and taken as unset: {}", fmt::join(unset_, ", ")));
  command_.notes.insert(command_.notes.begin(), notes_.begin(), notes_.end());
  return std::move(command_);
}

// What #SBATCH lines say is what Slurm tells the script.
void ShellReading::slurm_header(std::string_view text) {
  bool slurm = false;
  for (std::size_t at = 0; (at = text.find("#SBATCH", at)) != std::string_view::npos; ++at) {
    slurm = true;
    std::string line(text.substr(at, text.find('\n', at) - at));
    std::replace(line.begin(), line.end(), '=', ' ');
    const auto words = shell_words(line.substr(0, line.find_first_of("#'\"", 1)));
    for (std::size_t i = 1; i + 1 < words.size(); ++i)
      if (!(depth_ > 0 && command_.nodes && (words[i] == "--nodes" || words[i] == "-N")))  // sbatch says it
        slurm_option(words[i], words[i + 1]);
  }
  if (!slurm) return;
  slurm_ = true;
  for (const char* set : {"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    variables_.try_emplace(set, Words{open_variable(set)});
}

void ShellReading::slurm_option(std::string_view option, std::string_view value) {
  const auto number = config::parse_integer(value);
  if (!number || *number < 1) return;
  if (option == "--nodes" || option == "-N") {
    command_.nodes = *number;
    for (const char* variable : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"})
      variables_[variable] = {std::string(value)};
  } else if (option == "--ntasks-per-node") {
    command_.devices = *number;
    variables_["SLURM_NTASKS_PER_NODE"] = {std::string(value)};
  } else if (option == "--gpus-per-node") {
    variables_["SLURM_GPUS_PER_NODE"] = {std::string(value)};
  }
}

bool ShellReading::running() const {
  return std::all_of(blocks_.begin(), blocks_.end(), [](const Block& b) { return b.runs; });
}

std::string ShellReading::where(int line) const {
  return file_ == name_ ? fmt::format("line {}", line) : fmt::format("{}:{}", file_, line);
}

void ShellReading::take(const ShellStatement& s) {
  std::string_view text = s.text;
  for (;;) {  // what may stand before a command on its line
    if (case_pattern(text)) return;
    const std::string_view word = text.substr(0, text.find_first_of(" \t"));
    if (word == "if" || word == "elif") {
      branch(word, text.substr(word.size()), s.line);
      branching_ = true;
      return;
    }
    if (branching_ && (s.after_and || s.after_or)) {  // if [ a ] && [ b ]
      if (!blocks_.empty() && blocks_.back().runs == s.after_and && !(s.after_or && blocks_.back().done)) {
        if (s.after_and) blocks_.back().done = false;
        decide(blocks_.back(), test(text, s.line));
      }
      return;
    }
    branching_ = false;
    if (word == "case") {
      begin_case(text.substr(word.size()), s.line);
      return;
    }
    if (word == "else") {
      if (!blocks_.empty()) blocks_.back().runs = blocks_.back().type == Block::kIf && !blocks_.back().done;
      text.remove_prefix(word.size());
    } else if (word == "fi" || word == "done" || word == "esac" || word == "}") {
      if (!blocks_.empty()) blocks_.pop_back();
      return;
    } else if (word == "for" || word == "while" || word == "until" || word == "function" ||
               text.ends_with("() {") || text.ends_with("(){")) {
      if (running())
        notes_.push_back(fmt::format("{}: '{}' is not followed", where(s.line), shortened(s.text)));
      blocks_.push_back({Block::kSkipped, false, true, {}});
      return;
    } else if (word == "{") {
      blocks_.push_back({Block::kSkipped, running(), true, {}});
      text.remove_prefix(word.size());
    } else if (word == "then" || word == "do" || word == "time" || word == "exec" || word == "nohup") {
      text.remove_prefix(word.size());
    } else {
      break;
    }
    text = after_blanks(text);
    if (text.empty()) return;
  }
  if (!running()) return;
  if ((s.after_and && status_ == false) || (s.after_or && status_ != false)) return;
  if ((s.after_and || s.after_or) && undecided_) return;
  if (text.starts_with("[")) {
    status_ = test(text, s.line);
    undecided_ = !status_;
    return;
  }
  status_.reset();
  undecided_ = false;
  const std::string_view word = text.substr(0, text.find_first_of(" \t")),
                         rest = after_blanks(text.substr(word.size()));
  if (word == "exit") {
    stopped_ = true;
  } else if (word == "return") {
    returned_ = true;
  } else if (word == "set" && (rest == "--" || rest.starts_with("-- "))) {
    const Words words = expand(text);
    given_.emplace(words.begin() + 2, words.end());
  } else if (word == "shift") {
    if (given_ && !given_->empty()) given_->erase(given_->begin());
  } else if (!assignments(text)) {
    run(text, s.line);
  }
}

// X=…, X+=…, X=(…), export X=… Y=…. False: a command.
bool ShellReading::assignments(std::string_view text) {
  bool declared = false, exports = false;
  for (;;) {
    const std::string_view word = text.substr(0, text.find_first_of(" \t"));
    const bool keyword =
        word == "export" || word == "declare" || word == "local" || word == "readonly" || word == "typeset";
    if (!keyword && !(declared && word.starts_with("-"))) break;
    declared = true;
    exports = exports || word == "export";
    if (word.size() == text.size()) return true;
    text.remove_prefix(text.find_first_not_of(" \t", word.size()));
  }
  std::vector<std::pair<std::string_view, std::string_view>> found;  // name or name+, value
  while (!text.empty()) {
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) break;
    std::string_view name = text.substr(0, equals);
    if (!is_name(name.ends_with('+') ? name.substr(0, name.size() - 1) : name)) break;
    const ShellSpan span(text, file_);
    const std::size_t begin = equals + 1;
    const std::size_t end =
        text.substr(begin).starts_with('(') ? array_end(text, begin) : span.word_end(begin);
    found.emplace_back(name, text.substr(begin, end - begin));
    const auto next = text.find_first_not_of(" \t\n", end);
    text = next == std::string_view::npos ? std::string_view() : text.substr(next);
  }
  if (!text.empty() && !declared) return false;  // X=1 command: the command decides
  for (const auto& [name, value] : found) {
    assign(name, value);
    if (exports) exported_.emplace(name.substr(0, name.find('+')));
  }
  if (exports)  // export X Y, without values
    for (const std::string& name : expand(text)) exported_.insert(name);
  return true;
}
std::size_t ShellReading::array_end(std::string_view text, std::size_t at) const {
  const ShellSpan span(text, file_);
  for (++at; at < text.size() && text[at] != ')';) at = span.after(at);
  return std::min(at + 1, text.size());
}
void ShellReading::assign(std::string_view name, std::string_view value) {
  const bool more = name.ends_with('+');
  if (more) name.remove_suffix(1);
  Words& variable = variables_[std::string(name)];
  if (value.starts_with("(")) {
    const Words words = expand(value.substr(1, value.size() - 2));
    if (!more) variable.clear();
    variable.insert(variable.end(), words.begin(), words.end());
    arrays_.emplace(name);
    return;
  }
  const std::string text = fmt::format("{}", fmt::join(expand(value, false), " "));
  if (more && !variable.empty())
    variable.back() += text;
  else
    variable = {text};
}

void ShellReading::run(std::string_view text, int line) {
  Words words = expand(cut(text));
  if (other_script(words, line)) return;
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == "-c") {  // bash -c "…", which another shell expands
      const std::string inner = words[i + 1];
      words = expand(cut(inner));
      break;
    }
  if (!words.empty() && words[0] == "eval") {
    const std::string inner = fmt::format("{}", fmt::join(words.begin() + 1, words.end(), " "));
    words = expand(cut(inner));
  }
  const std::size_t program = program_of(words);
  cut_redirections(words, program);
  if (of_megatron(words, program)) command_.words = std::move(words);
}

// A script that another one reads only sets variables: those with arguments of Megatron, but for parts of
// others.
void ShellReading::take_variables() {
  std::vector<std::pair<std::string, Words>> found;
  for (const auto& [name, value] : variables_) {
    Words words = expand(fmt::format("${{{}[@]}}", name));
    if (const std::size_t program = program_of(words); program < words.size()) {
      cut_redirections(words, program);
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(program));
    }
    if (of_megatron(words, 0)) found.emplace_back(name, std::move(words));
  }
  const auto is_part = [&](const auto& one) {
    return std::any_of(found.begin(), found.end(), [&](const auto& other) {
      if (one.second.size() > other.second.size() ||
          (one.second.size() == other.second.size() && one.first <= other.first))
        return false;
      return std::search(other.second.begin(), other.second.end(), one.second.begin(), one.second.end()) !=
             other.second.end();
    });
  };
  std::vector<std::string> names;
  for (const auto& one : found) {
    if (is_part(one)) continue;
    names.push_back(one.first);
    const bool program = one.second.front().ends_with(".py");
    command_.words.insert(program ? command_.words.begin() : command_.words.end(), one.second.begin(),
                          one.second.end());
  }
  if (!names.empty())
    notes_.push_back(fmt::format("no command runs a Python program: read from what the script sets, {}",
                                 fmt::join(names, ", ")));
}

// Without what is piped or redirected.
std::string_view ShellReading::cut(std::string_view text) const {
  const ShellSpan span(text, file_);
  for (std::size_t at = 0; at < text.size(); at = span.after(at)) {
    if (text[at] == '|' || text[at] == '&') return text.substr(0, at);
    if (text[at] == '>' && at > 0 && (is_blank(text[at - 1]) || text[at - 1] == '2')) {
      std::size_t end = at;
      if (text[at - 1] == '2') --end;
      return text.substr(0, end);
    }
  }
  return text;
}

std::string open_variable(std::string_view name) { return fmt::format("{}{}{}", kOpen, name, kClose); }

bool has_open(std::string_view word) { return word.find(kOpen) != std::string_view::npos; }

std::string shown_word(std::string_view word) {
  std::string out;
  for (const char c : word) {
    if (c == kOpen) out += '$';
    if (c != kOpen && c != kClose) out += c;
  }
  return out;
}

std::vector<std::string> open_variables(std::string_view word) {
  std::vector<std::string> names;
  for (std::size_t at = 0; (at = word.find(kOpen, at)) != std::string_view::npos; ++at)
    names.emplace_back(word.substr(at + 1, word.find(kClose, at) - at - 1));
  return names;
}

bool is_script_path(std::string_view path) {
  return path.ends_with(".sh") || path.ends_with(".bash") || path.ends_with(".slurm") ||
         path.ends_with(".sbatch");
}

ScriptCommand read_shell_script(std::string_view text, const std::string& name, const ScriptStart& start) {
  int files = 64;
  ShellReading reading(name, start, files);
  reading.follow(text);
  return reading.finish();
}

}  // namespace stoa::foreign
