// Words of a shell script: quotes, variables, ${X:-default}, arithmetic, and of programs those that only take
// paths apart.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "config/value.h"
#include "foreign/megatron/shell_arithmetic.h"
#include "foreign/megatron/shell_reading.h"

namespace stoa::foreign {
namespace {

constexpr std::size_t kLargestText = 1 << 20;  // expanded words: scripts that double a variable end there

// A word that another shell may read again: without what would mean something there.
std::string open(std::string_view text) {
  std::string name;
  for (const char c : text)
    if (!is_blank(c) && std::string_view("$'\"`|&;<>\\{}").find(c) == std::string_view::npos) name += c;
  return open_variable(name);
}

}  // namespace

std::optional<std::int64_t> ShellReading::number(const std::string& text) {
  return shell_arithmetic(text, [&](std::string_view name) -> std::optional<std::string> {
    const auto value = value_of(std::string(name), false);
    if (!value || value->empty()) return {};
    return value->front();
  });
}

// The words of a variable; of an array all of them where `all`.
std::optional<ShellReading::Words> ShellReading::value_of(const std::string& name, bool all) const {
  if (name == "PWD") return Words{directory_};
  if (name == "0") return Words{name_};
  if (name == "BASH_SOURCE") return Words{file_};
  if (given_ && !name.empty() && name.find_first_not_of("0123456789") == std::string::npos) {
    const auto n = static_cast<std::size_t>(config::parse_integer(name).value_or(0));
    return n >= 1 && n <= given_->size() ? Words{(*given_)[n - 1]} : Words{};
  }
  const auto it = variables_.find(name);
  if (it == variables_.end()) return {};
  if (all || it->second.empty()) return it->second;
  return Words{it->second.front()};
}

// ${…}
ShellReading::Words ShellReading::parameter(std::string_view inside) {
  if (inside.starts_with('#')) {
    const std::string name(inside.substr(1, inside.find('[') - 1));
    const auto it = variables_.find(name);
    if (it == variables_.end()) return {open(name)};
    return {std::to_string(arrays_.contains(name) ? it->second.size()
                           : it->second.empty()   ? 0
                                                  : it->second[0].size())};
  }
  if (given_ && (inside == "@" || inside == "*")) return *given_;
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

// $(…): the directory, parts of paths.
std::string ShellReading::substituted(std::string_view text) {
  Words words = expand(text);
  const auto option = [](const std::string& w) { return w.size() > 1 && w[0] == '-'; };
  if (!words.empty() && std::none_of(words.begin(), words.end(), has_open)) {
    const std::string program = words.front();
    if (program == "cd" && words.size() >= 4 && words[words.size() - 1] == "pwd" &&
        words[words.size() - 2] == "&&")
      words.erase(words.begin() + 2, words.end());  // cd DIR > /dev/null && pwd
    std::erase_if(words, option);
    const fs::path path = words.size() == 2 ? words[1] : "";
    if (program == "pwd" && words.size() == 1) return directory_;
    if (program == "dirname" && !path.empty())
      return path.has_parent_path() ? path.parent_path().string() : ".";
    if (program == "basename" && !path.empty()) return path.filename().string();
    if ((program == "cd" || program == "realpath" || program == "readlink") && !path.empty())
      return path.string();
    if (program == "echo")
      if (const auto begin = words.begin() + 1;
          std::none_of(begin, words.end(), [](const std::string& w) { return w == "|"; }))
        return fmt::format("{}", fmt::join(begin, words.end(), " "));
  }
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return open(fmt::format("({})", text));
}

ShellReading::Words ShellReading::expand(std::string_view raw, bool split) {
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
    require<UsageError>(word.size() < kLargestText, "{}: a value is larger than {} bytes", file_,
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
  const ShellSpan span(raw, file_);
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
      const char sign = raw[at + 1];
      if (given_ && sign == '#')
        add(std::to_string(given_->size()));
      else if (given_ && (sign == '@' || sign == '*'))
        add_words(*given_);
      else
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

}  // namespace stoa::foreign
