// The text of a shell script in parts: its statements, and where quoted and parenthesised parts end.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoa::foreign {

inline bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
// A name that a variable may have.
bool is_name(std::string_view text);
// "NAME=value" of an assignment in front of a command; none: the word is none.
std::optional<std::pair<std::string, std::string>> assignment_of(std::string_view word);
// Without the spaces and tabs in front.
std::string_view after_blanks(std::string_view text);
// As messages show it: what is long is cut.
std::string shortened(std::string_view text);

// `text` and `name`, that of the script in messages, outlive it.
class ShellSpan {
 public:
  ShellSpan(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  // One past the end of the character, or of the quoted or substituted part, at `at`. UsageError: it has no
  // end, or is nested too deep.
  std::size_t after(std::size_t at, int depth = 0) const;
  // One past the word at `at`: the first blank that is not inside such a part, or the end.
  std::size_t word_end(std::size_t at) const;
  // One past the parenthesis or brace that closes the one at `at`.
  std::size_t matching(std::size_t at, int depth = 0) const;

 private:
  std::size_t closing(std::size_t found, std::size_t at) const;
  std::ptrdiff_t line_of(std::size_t at) const;

  const std::string_view text_;
  const std::string& name_;
};

struct ShellStatement {
  std::string text;
  int line = 0;
  bool after_and = false, after_or = false;  // joined to the one before by && or ||
};

// Statements of a script: comments, here-documents and continued lines are gone.
std::vector<ShellStatement> shell_statements(std::string_view text, const std::string& name);

}  // namespace stoa::foreign
