// A list of words and phrases of the user, one a line, in lower case.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/file.h"

namespace stoa::curate {

// The text of a list in UTF-8: decompressed by its name, without a byte-order mark, converted if need be.
// IoError where the file cannot be read.
std::string list_text(const fs::path& file);

class WordList {
 public:
  // IoError where the file cannot be read, ConfigError where it has no entry.
  explicit WordList(const fs::path& file);
  const std::unordered_set<std::string>& words() const { return words_; }  // entries without a blank
  const std::vector<std::string>& phrases() const { return phrases_; }     // entries with blanks
  // Whether one of the words is a piece between white space, or a phrase stands anywhere, in a text in lower
  // case.
  bool occurs_in(std::string_view lower) const;

 private:
  std::unordered_set<std::string> words_;
  std::vector<std::string> phrases_;
};

}  // namespace stoa::curate
