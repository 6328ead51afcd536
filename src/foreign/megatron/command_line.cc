#include "foreign/megatron/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "config/value.h"
#include "foreign/megatron/shell_script.h"

namespace stoa::foreign {
namespace {

bool is_negative_number(std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return false;
  return std::all_of(word.begin() + 1, word.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

// As argparse decides: what begins with a dash is an argument, unless it is a number or has a space.
bool is_argument(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !is_negative_number(word) &&
         (word.find(' ') == std::string_view::npos || has_open(word));
}

// Options of the programs that start Megatron, with their value, where no script follows.
bool is_of_launcher(std::string_view name) {
  constexpr std::string_view kNames[] = {"nproc-per-node", "nnodes",        "node-rank",    "master-addr",
                                         "master-port",    "rdzv-id",       "max-restarts", "num-gpus",
                                         "rdzv-backend",   "rdzv-endpoint", "num-nodes"};
  std::string dashes(name);
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  return std::find(std::begin(kNames), std::end(kNames), dashes) != std::end(kNames);
}

void take_ranks(MegatronCommand& command, std::string name, const std::string& value) {
  std::replace(name.begin(), name.end(), '_', '-');
  const auto number = config::parse_integer(value);
  if (!number || *number < 1) return;  // "gpu", "1:4": known on the machine only
  if (name == "nproc-per-node" || name == "num-gpus") command.devices = *number;
  if (name == "nnodes" || name == "num-nodes") command.nodes = *number;
}

struct Word {
  std::string name;  // without dashes
  std::optional<std::string> value;
};
Word split_word(std::string_view word) {
  word.remove_prefix(word.starts_with("--") ? 2 : 1);
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) return {std::string(word), {}};
  return {std::string(word.substr(0, equals)), std::string(word.substr(equals + 1))};
}

// Whether all words up to the next argument are variables that nothing sets, as $EXTRA behind a list.
bool only_open(const std::vector<std::string>& words, std::size_t at) {
  for (; at < words.size() && !is_argument(words[at]); ++at)
    if (words[at].front() != kOpen || words[at].find(kClose) != words[at].size() - 1) return false;
  return true;
}

std::string arity_words(Arity arity) {
  switch (arity) {
    case Arity::kFlag:
      return "no value";
    case Arity::kOne:
      return "one value";
    case Arity::kOptional:
      return "at most one value";
    case Arity::kAny:
      return "any number of values";
    case Arity::kSome:
      return "at least one value";
  }
  return "";
}

void check_arity(const GivenArgument& a) {
  const std::size_t n = a.values.size();
  const Arity arity = a.row->arity;
  const bool right = arity == Arity::kFlag       ? n == 0
                     : arity == Arity::kOne      ? n == 1
                     : arity == Arity::kOptional ? n <= 1
                     : arity == Arity::kSome     ? n >= 1
                                                 : true;
  require<UsageError>(right, "--from-megatron: --{} takes {}, got {}", a.name, arity_words(arity),
                      a.values.empty() ? "none" : fmt::format("'{}'", fmt::join(a.values, " ")));
}

}  // namespace

std::string GivenArgument::text() const {
  if (!shown.empty()) return shown;
  return values.empty() ? "--" + name
                        : fmt::format("--{} {}", name, shown_word(fmt::format("{}", fmt::join(values, " "))));
}

std::vector<std::string> shell_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      inside = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      if (text[i + 1] != '\n') word += text[i + 1], inside = true;  // a line that continues
      ++i;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (inside) words.push_back(std::move(word));
      word.clear();
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  require<UsageError>(quote == 0, "--from-megatron: a quote ({}) is not closed", quote);
  if (inside) words.push_back(std::move(word));
  return words;
}

MegatronCommand read_megatron_command(const std::vector<std::string>& words) {
  MegatronCommand command;
  std::size_t& begin = command.begin;
  const auto script =
      std::find_if(words.begin(), words.end(), [](const std::string& w) { return w.ends_with(".py"); });
  if (script != words.end()) {
    begin = static_cast<std::size_t>(script - words.begin()) + 1;
    const fs::path path(*script);
    command.script = path.filename().string();
    command.folder = path.parent_path().filename().string();
    for (std::size_t i = 0; i + 1 < begin; ++i) {
      if (!words[i].starts_with("--")) continue;
      const Word w = split_word(words[i]);
      take_ranks(command, w.name, w.value ? *w.value : words[i + 1]);
    }
  } else {
    while (begin < words.size() && !is_argument(words[begin])) ++begin;  // torchrun, srun
  }

  for (std::size_t i = begin; i < words.size();) {
    if (!is_argument(words[i]) && has_open(words[i])) {
      command.open_words.push_back(shown_word(words[i++]));
      continue;
    }
    require<UsageError>(
        is_argument(words[i]), "--from-megatron: '{}' belongs to no argument{}", words[i],
        command.arguments.empty()
            ? ""
            : fmt::format(": --{} takes {}", command.arguments.back().name,
                          command.arguments.back().row ? arity_words(command.arguments.back().row->arity)
                                                       : "other values"));
    const Word w = split_word(words[i++]);
    GivenArgument a{w.name, find_megatron_argument(w.name), {}};
    const bool of_launcher = !a.row && script == words.end() && is_of_launcher(w.name);
    const Arity arity = a.row ? a.row->arity : of_launcher ? Arity::kOne : Arity::kAny;
    const std::size_t most = arity == Arity::kFlag                               ? 0
                             : arity == Arity::kOne || arity == Arity::kOptional ? 1
                                                                                 : words.size();
    if (w.value)
      a.values.push_back(*w.value);
    else
      while (i < words.size() && a.values.size() < most && !is_argument(words[i])) {
        if (!a.values.empty() && !w.name.ends_with("path") && only_open(words, i)) break;
        a.values.push_back(words[i++]);
      }
    if (of_launcher) {
      if (!a.values.empty()) take_ranks(command, w.name, a.values.front());
      continue;
    }
    if (a.row) check_arity(a);
    std::erase_if(command.arguments, [&](const GivenArgument& b) { return b.name == a.name; });
    command.arguments.push_back(std::move(a));
  }
  return command;
}

}  // namespace stoa::foreign
