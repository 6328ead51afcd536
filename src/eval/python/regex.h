// Python's re on text, by Oniguruma with Python's syntax.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::eval {

class PythonRegex {
 public:
  // DataError: a pattern that is none, or that backtracks without end on a text.
  explicit PythonRegex(std::string_view pattern, bool ignore_case = false);
  ~PythonRegex();
  PythonRegex(PythonRegex&&) noexcept;
  PythonRegex& operator=(PythonRegex&&) = delete;

  // re.findall: per match the whole match, or its groups if the pattern has any ("" where one took no part).
  std::vector<std::vector<std::string>> find_all(std::string_view text) const;
  // re.sub; `with` may hold \1 to \9 and \g<1>. `most` 0: all.
  std::string substitute(std::string_view text, std::string_view with, std::size_t most = 0) const;

 private:
  struct Program;
  struct Match {
    std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> groups;  // [0]: all of it; begin -1: took no part
  };
  std::vector<Match> matches(std::string_view text, std::size_t most) const;
  std::unique_ptr<const Program> program_;
};

// re.sub by one pattern after the other.
class RegexReplacements {
 public:
  struct Rule {
    const char *pattern, *with;
    bool ignore_case = false;
  };
  RegexReplacements(std::initializer_list<Rule> rules);
  std::string operator()(std::string text) const;

 private:
  std::vector<std::pair<PythonRegex, std::string>> rules_;
};

}  // namespace stoa::eval
