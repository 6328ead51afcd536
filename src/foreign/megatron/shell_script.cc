#include "foreign/megatron/shell_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "config/value.h"
#include "foreign/megatron/command_line.h"
#include "foreign/megatron/shell_arithmetic.h"
#include "foreign/megatron/shell_statements.h"

namespace stoa::foreign {
namespace {

constexpr std::size_t kLargestText = 1 << 20;  // expanded words: scripts that double a variable end there

bool is_name(std::string_view text) {
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(text.begin(), text.end(), is_name_char);
}

class ShellReading {
 public:
  ShellReading(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {
    const auto slash = name_.rfind('/');
    directory_ = slash == std::string::npos ? "." : name_.substr(0, slash);
  }

  ScriptCommand read() {
    slurm_nodes();
    for (const ShellStatement& s : shell_statements(text_, name_)) {
      if (stopped_) break;
      take(s);
    }
    if (command_.words.empty()) take_variables();
    require<UsageError>(!command_.words.empty(),
                        "{}: no command in it runs a Python program with arguments of Megatron-LM{}", name_,
                        stopped_ ? ": it ends by 'exit' before" : "");
    command_.notes.insert(command_.notes.begin(), notes_.begin(), notes_.end());
    return std::move(command_);
  }

 private:
  using Words = std::vector<std::string>;
  struct Block {
    enum Type { kIf, kSkipped } type;
    bool runs, done;  // this branch, an earlier one
  };

  // #SBATCH --nodes=N is what Slurm tells the script.
  void slurm_nodes() {
    for (std::size_t at = 0; (at = text_.find("#SBATCH", at)) != std::string_view::npos; ++at) {
      const std::string line(text_.substr(at, text_.find('\n', at) - at));
      for (const char* option : {"--nodes=", "--nodes ", "-N "})
        if (const auto found = line.find(option); found != std::string::npos) {
          const std::string rest = line.substr(found + std::string_view(option).size());
          const std::string digits = rest.substr(0, rest.find_first_not_of("0123456789"));
          if (!digits.empty())
            for (const char* variable : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"})
              variables_[variable] = {digits};
        }
    }
  }

  bool running() const {
    return std::all_of(blocks_.begin(), blocks_.end(), [](const Block& b) { return b.runs; });
  }

  void take(const ShellStatement& s) {
    std::string_view text = s.text;
    for (;;) {  // what may stand before a command on its line
      const std::string_view word = text.substr(0, text.find_first_of(" \t"));
      if (word == "if" || word == "elif") {
        branch(word, text.substr(word.size()), s.line);
        branching_ = true;
        return;
      }
      if (branching_ && (s.after_and || s.after_or)) {  // if [ a ] && [ b ]
        if (!blocks_.empty() && blocks_.back().runs == s.after_and && !(s.after_or && blocks_.back().done)) {
          blocks_.back().runs = test(text, s.line).value_or(false);
          blocks_.back().done = blocks_.back().runs;
        }
        return;
      }
      branching_ = false;
      if (word == "else") {
        if (!blocks_.empty()) blocks_.back().runs = blocks_.back().type == Block::kIf && !blocks_.back().done;
        text.remove_prefix(word.size());
      } else if (word == "fi" || word == "done" || word == "esac" || word == "}") {
        if (!blocks_.empty()) blocks_.pop_back();
        return;
      } else if (word == "for" || word == "while" || word == "until" || word == "case" ||
                 word == "function" || text.ends_with("() {") || text.ends_with("(){")) {
        if (running())
          notes_.push_back(fmt::format("line {}: '{}' is not followed", s.line, shorten(s.text)));
        blocks_.push_back({Block::kSkipped, false, true});
        return;
      } else if (word == "{") {
        blocks_.push_back({Block::kSkipped, running(), true});
        text.remove_prefix(word.size());
      } else if (word == "then" || word == "do" || word == "time" || word == "exec" || word == "nohup") {
        text.remove_prefix(word.size());
      } else {
        break;
      }
      const auto first = text.find_first_not_of(" \t");
      if (first == std::string_view::npos) return;
      text.remove_prefix(first);
    }
    if (!running()) return;
    if ((s.after_and && status_ == false) || (s.after_or && status_ != false)) return;
    if (text.starts_with("[")) {
      status_ = test(text, s.line);
      return;
    }
    status_.reset();
    if (text == "exit" || text.starts_with("exit ")) {
      stopped_ = true;
      return;
    }
    if (assignments(text)) return;
    run(text);
  }

  static std::string shorten(const std::string& text) {
    return text.size() > 60 ? text.substr(0, 57) + "..." : text;
  }

  void branch(std::string_view word, std::string_view condition, int line) {
    if (word == "if") {
      const bool outside = running();
      blocks_.push_back({Block::kIf, false, !outside});
    }
    if (blocks_.empty()) return;
    Block& block = blocks_.back();
    block.runs = false;
    if (block.done) return;
    const auto holds = test(condition, line);
    block.runs = holds.value_or(false);
    block.done = block.done || block.runs;
  }

  // [ … ], [[ … ]], (( … )). No value where it depends on what the script does not say.
  std::optional<bool> test(std::string_view text, int line) {
    const std::string whole(text);
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    text.remove_prefix(first);
    bool negated = false;
    if (text.starts_with("! ")) negated = true, text.remove_prefix(2);
    std::optional<bool> holds;
    const bool twice = text.starts_with("[[");
    if (text.starts_with("((")) {
      const auto end = text.rfind("))");
      if (end != std::string_view::npos)
        if (const auto n = number(std::string(text.substr(2, end - 2)))) holds = *n != 0;
    } else if (text.starts_with("[")) {
      const auto end = text.rfind(twice ? "]]" : "]");
      if (end != std::string_view::npos) holds = any_of(text.substr(twice ? 2 : 1, end - (twice ? 2 : 1)));
    }
    if (!holds) {
      notes_.push_back(
          fmt::format("line {}: what follows '{}' is left out, for the script does not say whether it holds",
                      line, shorten(whole.substr(whole.find_first_not_of(" \t")))));
      return {};
    }
    return *holds != negated;
  }
  std::optional<bool> any_of(std::string_view text) {
    const Words words = expand_test(text);
    std::optional<bool> any = false;
    Words part;
    std::optional<bool> all = true;
    const auto close = [&] {
      const auto one = simple(part);
      part.clear();
      if (all && *all) all = one;
    };
    for (const std::string& w : words) {
      if (w == "&&" || w == "-a") {
        close();
      } else if (w == "||" || w == "-o") {
        close();
        if (all && *all) return true;
        if (!all) any.reset();
        all = true;
      } else {
        part.push_back(w);
      }
    }
    close();
    if (all && *all) return true;
    return all ? any : std::optional<bool>();
  }
  std::optional<bool> simple(Words words) {
    bool negated = false;
    while (!words.empty() && words[0] == "!") negated = !negated, words.erase(words.begin());
    std::optional<bool> holds;
    const auto open = [](const std::string& w) { return w.find(kOpen) != std::string::npos; };
    if (words.size() == 2 && (words[0] == "-n" || words[0] == "-z")) {
      // A variable that nothing sets is empty unless it comes from outside, as $1 and the environment do.
      if (!open(words[1])) holds = words[1].empty() == (words[0] == "-z");
    } else if (words.size() == 3 && !open(words[0]) && !open(words[2])) {
      const std::string& op = words[1];
      if (op == "=" || op == "==") holds = words[0] == words[2];
      if (op == "!=") holds = words[0] != words[2];
      const auto a = config::parse_integer(words[0]), b = config::parse_integer(words[2]);
      if (a && b) {
        if (op == "-eq") holds = *a == *b;
        if (op == "-ne") holds = *a != *b;
        if (op == "-gt") holds = *a > *b;
        if (op == "-lt") holds = *a < *b;
        if (op == "-ge") holds = *a >= *b;
        if (op == "-le") holds = *a <= *b;
      }
    } else if (words.size() == 1 && !open(words[0])) {
      holds = !words[0].empty();
      if (words[0] == "true" || words[0] == "false") holds = true;  // a word that is not empty
    }
    if (holds) *holds = *holds != negated;
    return holds;
  }
  // Words of a condition: an empty value stays a word.
  Words expand_test(std::string_view text) {
    Words words;
    const ShellSpan span(text, name_);
    for (std::size_t at = 0; at < text.size();) {
      if (is_blank(text[at])) {
        ++at;
        continue;
      }
      const std::size_t begin = at;
      while (at < text.size() && !is_blank(text[at])) at = span.after(at);
      words.push_back(fmt::format("{}", fmt::join(expand(text.substr(begin, at - begin)), " ")));
    }
    return words;
  }

  // X=…, X+=…, X=(…), export X=… Y=…. False: a command.
  bool assignments(std::string_view text) {
    bool declared = false;
    for (;;) {
      const std::string_view word = text.substr(0, text.find_first_of(" \t"));
      const bool keyword =
          word == "export" || word == "declare" || word == "local" || word == "readonly" || word == "typeset";
      if (!keyword && !(declared && word.starts_with("-"))) break;
      declared = true;
      if (word.size() == text.size()) return true;
      text.remove_prefix(text.find_first_not_of(" \t", word.size()));
    }
    std::vector<std::pair<std::string_view, std::string_view>> found;  // name or name+, value
    while (!text.empty()) {
      const auto equals = text.find('=');
      if (equals == std::string_view::npos) break;
      std::string_view name = text.substr(0, equals);
      if (!is_name(name.ends_with('+') ? name.substr(0, name.size() - 1) : name)) break;
      const ShellSpan span(text, name_);
      std::size_t end = equals + 1;
      if (end < text.size() && text[end] == '(')
        end = array_end(text, end);
      else
        while (end < text.size() && !is_blank(text[end])) end = span.after(end);
      found.emplace_back(name, text.substr(equals + 1, end - equals - 1));
      const auto next = text.find_first_not_of(" \t\n", end);
      text = next == std::string_view::npos ? std::string_view() : text.substr(next);
    }
    if (!text.empty() && !declared) return false;  // X=1 command: the command decides
    for (const auto& [name, value] : found) assign(name, value);
    return true;
  }
  std::size_t array_end(std::string_view text, std::size_t at) const {
    const ShellSpan span(text, name_);
    for (++at; at < text.size() && text[at] != ')';) at = span.after(at);
    return std::min(at + 1, text.size());
  }
  void assign(std::string_view name, std::string_view value) {
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

  void run(std::string_view text) {
    Words words = expand(cut(text));
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
  static std::size_t program_of(const Words& words) {
    return static_cast<std::size_t>(
        std::find_if(words.begin(), words.end(), [](const std::string& w) { return w.ends_with(".py"); }) -
        words.begin());
  }
  // Where the words of another command begin, in a text that was run as one.
  static void cut_redirections(Words& words, std::size_t program) {
    const auto end = std::find_if(words.begin() + static_cast<std::ptrdiff_t>(program), words.end(),
                                  [](const std::string& w) {
                                    return w == "|" || w == "&" || w == "2>&1" || w == "2>" ||
                                           w.starts_with("&>") || w.starts_with(">");
                                  });
    words.erase(end, words.end());
  }
  // Three known arguments among the words from the program on.
  static bool of_megatron(const Words& words, std::size_t program) {
    return std::count_if(words.begin() + static_cast<std::ptrdiff_t>(program), words.end(),
                         [](const std::string& w) {
                           return w.starts_with("--") &&
                                  find_megatron_argument(std::string_view(w).substr(
                                      2, w.find('=') == w.npos ? w.npos : w.find('=') - 2)) != nullptr;
                         }) >= 3;
  }

  // A script that another one reads only sets variables: those with arguments of Megatron, but for parts of
  // others.
  void take_variables() {
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
  std::string_view cut(std::string_view text) const {
    const ShellSpan span(text, name_);
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

  std::optional<std::int64_t> number(const std::string& text) {
    return shell_arithmetic(text, [&](std::string_view name) -> std::optional<std::string> {
      const auto it = variables_.find(std::string(name));
      if (it == variables_.end() || it->second.empty()) return {};
      return it->second.front();
    });
  }

  // A word that another shell may read again: without what would mean something there.
  static std::string open(std::string_view text) {
    std::string name;
    for (const char c : text)
      if (!is_blank(c) && std::string_view("$'\"`|&;<>\\{}").find(c) == std::string_view::npos) name += c;
    return open_name(name);
  }
  static std::string open_name(std::string_view name) { return fmt::format("{}{}{}", kOpen, name, kClose); }

  // The words of a variable; of an array all of them where `all`.
  std::optional<Words> value_of(const std::string& name, bool all) const {
    if (name == "PWD") return Words{directory_};
    const auto it = variables_.find(name);
    if (it == variables_.end()) return {};
    if (all || it->second.empty()) return it->second;
    return Words{it->second.front()};
  }

  // ${…}
  Words parameter(std::string_view inside) {
    if (inside.starts_with('#')) {
      const std::string name(inside.substr(1, inside.find('[') - 1));
      const auto it = variables_.find(name);
      if (it == variables_.end()) return {open(name)};
      return {std::to_string(arrays_.contains(name) ? it->second.size()
                             : it->second.empty()   ? 0
                                                    : it->second[0].size())};
    }
    std::size_t end = 0;
    while (end < inside.size() && is_name_char(inside[end])) ++end;
    const std::string name(inside.substr(0, end));
    std::string_view rest = inside.substr(end);
    bool all = false;
    std::optional<std::size_t> index;
    if (rest.starts_with("[@]") || rest.starts_with("[*]")) {
      all = true;
      rest.remove_prefix(3);
    } else if (rest.starts_with('[')) {
      const auto close = rest.find(']');
      if (close == std::string_view::npos) return {open(name)};
      const auto n = number(std::string(rest.substr(1, close - 1)));
      if (!n || *n < 0) return {open(name)};
      index = static_cast<std::size_t>(*n);
      rest.remove_prefix(close + 1);
    }
    auto value = value_of(name, all || index);
    if (value && index) value = *index < value->size() ? Words{(*value)[*index]} : Words{};
    const bool empty = !value || value->empty() || (value->size() == 1 && value->front().empty());
    if (rest.empty()) return value ? *value : Words{open(name)};
    for (const char* op : {":-", "-", ":=", "="})
      if (rest.starts_with(op)) {
        const bool colon = op[0] == ':';
        const bool otherwise = colon ? empty : !value;
        const Words words = otherwise ? expand(rest.substr(std::string_view(op).size())) : *value;
        if (otherwise && rest.find('=') < 2) variables_[name] = words;
        return words;
      }
    for (const char* op : {":+", "+"})
      if (rest.starts_with(op)) {
        if (!value) return {open(name)};
        return empty ? Words{} : expand(rest.substr(std::string_view(op).size()));
      }
    return {open(name)};  // substrings and patterns
  }

  std::string substituted(std::string_view command) const {
    while (!command.empty() && is_blank(command.front())) command.remove_prefix(1);
    while (!command.empty() && is_blank(command.back())) command.remove_suffix(1);
    if (command == "pwd") return directory_;
    return open(fmt::format("({})", command));
  }

  // Words of `raw` as the shell makes them; with `split` false what is not quoted is not split either.
  Words expand(std::string_view raw, bool split = true) {
    Words words;
    std::string word;
    bool inside = false, quoted = false;
    const auto finish = [&] {
      if (inside) words.push_back(std::move(word));
      word.clear();
      inside = false;
    };
    const auto add = [&](std::string_view text) {
      word += text;
      inside = true;
      require<UsageError>(word.size() < kLargestText, "{}: a value is larger than {} bytes", name_,
                          kLargestText);
    };
    const auto add_words = [&](const Words& value) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (i > 0) finish();
        if (quoted || !split) {
          add(value[i]);
          continue;
        }
        std::size_t at = 0;
        const std::string& text = value[i];
        while (at < text.size()) {
          if (is_blank(text[at])) {
            finish();
            ++at;
            continue;
          }
          std::size_t end = at;
          bool marked = false;  // the name of an open variable is one piece
          while (end < text.size() && (marked || !is_blank(text[end]))) {
            if (text[end] == kOpen) marked = true;
            if (text[end] == kClose) marked = false;
            ++end;
          }
          add(std::string_view(text).substr(at, end - at));
          at = end;
        }
      }
    };
    const ShellSpan span(raw, name_);
    for (std::size_t at = 0; at < raw.size();) {
      const char c = raw[at];
      if (c == '"') {
        quoted = !quoted;
        inside = true;
        ++at;
      } else if (c == '\'' && !quoted) {
        const std::size_t end = span.after(at);
        add(raw.substr(at + 1, end - at - 2));
        at = end;
      } else if (c == '\\' && at + 1 < raw.size()) {
        if (raw[at + 1] == '\n') {
        } else if (quoted && raw[at + 1] != '"' && raw[at + 1] != '$' && raw[at + 1] != '\\' &&
                   raw[at + 1] != '`') {
          add(raw.substr(at, 2));
        } else {
          add(raw.substr(at + 1, 1));
        }
        at += 2;
      } else if (c == '`') {
        const std::size_t end = span.after(at);
        add(substituted(raw.substr(at + 1, end - at - 2)));
        at = end;
      } else if (c == '$' && raw.substr(at, 3) == "$((") {
        const std::size_t end = span.matching(at + 1);
        const std::string text(raw.substr(at + 3, end - at - 5));
        const auto n = number(text);
        add(n ? std::to_string(*n) : open(fmt::format("(({}))", text)));
        at = end;
      } else if (c == '$' && raw.substr(at, 2) == "$(") {
        const std::size_t end = span.matching(at + 1);
        add(substituted(raw.substr(at + 2, end - at - 3)));
        at = end;
      } else if (c == '$' && raw.substr(at, 2) == "${") {
        const std::size_t end = span.matching(at + 1);
        add_words(parameter(raw.substr(at + 2, end - at - 3)));
        at = end;
      } else if (c == '$' && at + 1 < raw.size() && is_name_char(raw[at + 1])) {
        std::size_t end = at + 1;
        if (raw[end] >= '0' && raw[end] <= '9')
          ++end;
        else
          while (end < raw.size() && is_name_char(raw[end])) ++end;
        add_words(parameter(raw.substr(at + 1, end - at - 1)));
        at = end;
      } else if (c == '$' && at + 1 < raw.size() &&
                 std::string_view("@*#?$!").find(raw[at + 1]) != std::string_view::npos) {
        add(open(raw.substr(at + 1, 1)));
        at += 2;
      } else if (is_blank(c) && !quoted && split) {
        finish();
        ++at;
      } else {
        add(raw.substr(at, 1));
        ++at;
      }
    }
    finish();
    return words;
  }

  std::string_view text_;
  std::string name_, directory_;
  std::map<std::string, Words> variables_;
  std::set<std::string> arrays_;
  std::vector<Block> blocks_;
  std::vector<std::string> notes_;
  std::optional<bool> status_;
  bool stopped_ = false, branching_ = false;
  ScriptCommand command_;
};

}  // namespace

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

ScriptCommand read_shell_script(std::string_view text, const std::string& name) {
  return ShellReading(text, name).read();
}

}  // namespace stoa::foreign
