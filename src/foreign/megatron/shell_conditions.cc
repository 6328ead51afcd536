// Branches of a shell script: if, case, [ … ], [[ … ]], (( … )).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "config/value.h"
#include "foreign/megatron/shell_reading.h"

namespace stoa::foreign {
namespace {

bool fits(const std::string& word, const std::string& pattern) {
  constexpr int kMostStars = 4;  // with many, fnmatch takes long
  return word == pattern || (std::count(pattern.begin(), pattern.end(), '*') <= kMostStars &&
                             fnmatch(pattern.c_str(), word.c_str(), 0) == 0);
}

}  // namespace

// A branch that nobody can decide is not followed, nor are those after it.
void ShellReading::decide(Block& block, std::optional<bool> holds) {
  block.runs = holds.value_or(false);
  block.done = block.done || holds.value_or(true);
}

void ShellReading::branch(std::string_view word, std::string_view condition, int line) {
  if (word == "if") {
    const bool outside = running();
    blocks_.push_back({Block::kIf, false, !outside, {}});
  }
  if (blocks_.empty()) return;
  Block& block = blocks_.back();
  block.runs = false;
  if (!block.done) decide(block, test(condition, line));
}

// case WORD in, and what may follow on its line.
void ShellReading::begin_case(std::string_view text, int line) {
  text = after_blanks(text);
  const std::size_t end = ShellSpan(text, file_).word_end(0);
  const std::string_view word = text.substr(0, end);
  Block block{Block::kCase, false, !running(), fmt::format("{}", fmt::join(expand_test(word), " "))};
  if (!block.done && has_open(block.subject)) {
    block.done = true;
    notes_.push_back(
        fmt::format("{}: the branches of 'case {}' are left out, for the script does not say what it is",
                    where(line), word));
  }
  blocks_.push_back(std::move(block));
  const auto in = text.find("in", end);
  if (in == std::string_view::npos) return;
  const std::string_view rest = after_blanks(text.substr(in + 2));
  if (!rest.empty()) take({std::string(rest), line});
}

// "a|b)" before a statement, which `text` keeps. True: nothing else is in it, or it is not this branch's.
bool ShellReading::case_pattern(std::string_view& text) {
  if (blocks_.empty() || blocks_.back().type != Block::kCase || text == "esac") return false;
  if (text.starts_with("case ")) {  // inside a branch
    if (!blocks_.back().runs) blocks_.push_back({Block::kSkipped, false, true, {}});
    return blocks_.back().type == Block::kSkipped;
  }
  const ShellSpan span(text, file_);
  std::size_t end = text.starts_with('(') ? 1 : 0;
  while (end < text.size() && text[end] != ')' && text[end] != '(') end = span.after(end);
  if (end >= text.size() || text[end] == '(') return !blocks_.back().runs;
  Block& block = blocks_.back();
  std::string_view patterns = text.substr(text.starts_with('('), end - text.starts_with('('));
  block.runs = false;
  while (!block.done && !patterns.empty()) {
    const std::size_t bar = std::min(patterns.find('|'), patterns.size());
    const std::string pattern = fmt::format("{}", fmt::join(expand_test(patterns.substr(0, bar)), " "));
    patterns.remove_prefix(std::min(bar + 1, patterns.size()));
    if (has_open(pattern))
      decide(block, {});
    else if (fits(block.subject, pattern))
      decide(block, true);
  }
  text = after_blanks(text.substr(end + 1));
  return text.empty() || !block.runs;
}

std::optional<bool> ShellReading::test(std::string_view text, int line) {
  text = after_blanks(text);
  if (text.empty()) return {};
  const std::string_view whole = text;
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
        fmt::format("{}: what follows '{}' is left out, for the script does not say whether it holds",
                    where(line), shortened(whole)));
    return {};
  }
  return *holds != negated;
}

std::optional<bool> ShellReading::any_of(std::string_view text) {
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

// A variable that nothing sets is empty, as ${X:-otherwise} takes it; what the machine answers is not known.
std::optional<bool> ShellReading::is_empty(const std::string& word) {
  if (!has_open(word)) return word.empty();
  const auto names = open_variables(word);
  std::size_t open = 0;
  for (const std::string& name : names) open += name.size() + 2;
  if (open < word.size()) return false;  // there is text next to the variables
  if (names.size() != 1 || !std::all_of(names[0].begin(), names[0].end(), is_name_char)) return {};
  if (variables_.contains(names[0])) return false;  // Slurm or another program sets it
  if (names[0].find_first_not_of("0123456789") == std::string::npos) return {};
  unset_.insert(names[0]);
  return true;
}

std::optional<bool> ShellReading::simple(Words words) {
  bool negated = false;
  while (!words.empty() && words[0] == "!") negated = !negated, words.erase(words.begin());
  std::optional<bool> holds;
  if (words.size() == 2 && (words[0] == "-n" || words[0] == "-z")) {
    holds = is_empty(words[1]);
    if (holds && words[0] == "-n") *holds = !*holds;
  } else if (words.size() == 3 && !has_open(words[0]) && !has_open(words[2])) {
    const std::string& op = words[1];
    if (op == "=" || op == "==") holds = fits(words[0], words[2]);
    if (op == "!=") holds = !fits(words[0], words[2]);
    const auto a = config::parse_integer(words[0]), b = config::parse_integer(words[2]);
    if (a && b) {
      if (op == "-eq") holds = *a == *b;
      if (op == "-ne") holds = *a != *b;
      if (op == "-gt") holds = *a > *b;
      if (op == "-lt") holds = *a < *b;
      if (op == "-ge") holds = *a >= *b;
      if (op == "-le") holds = *a <= *b;
    }
  } else if (words.size() == 1 && !has_open(words[0])) {
    holds = !words[0].empty();  // "true" and "false" are words that are not empty
  }
  if (holds) *holds = *holds != negated;
  return holds;
}

// Words of a condition: an empty value stays a word.
ShellReading::Words ShellReading::expand_test(std::string_view text) {
  Words words;
  const ShellSpan span(text, file_);
  for (std::size_t at = 0; at < text.size();) {
    if (is_blank(text[at])) {
      ++at;
      continue;
    }
    const std::size_t end = span.word_end(at);
    words.push_back(fmt::format("{}", fmt::join(expand(text.substr(at, end - at)), " ")));
    at = end;
  }
  return words;
}

}  // namespace stoa::foreign
