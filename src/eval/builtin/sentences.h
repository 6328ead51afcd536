// Sentences and words of English texts as NLTK 3.9 cuts them: Punkt (Kiss and Strunk 2006) with the model
// that NLTK downloads, and its tokenizer of words.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"

namespace stoa::eval {

class SentenceCutter {
 public:
  // `folder`: abbrev_types.txt, collocations.tab, ortho_context.tab, sent_starters.txt. IoError: one is
  // missing; DataError: it is not what it should be.
  explicit SentenceCutter(const fs::path& folder);
  // With the model of English in $NLTK_DATA, ~/nltk_data or where else NLTK looks. DataError: it is missing
  // (what, where).
  static const SentenceCutter& english();

  std::vector<std::string_view> sentences(std::string_view text) const;
  std::vector<std::string> words(std::string_view text) const;  // word_tokenize

 private:
  struct Token;
  std::vector<Token> tokens_of(std::string_view context) const;
  void decide(Token& token, const Token& next) const;
  int starts_sentence(const Token& token) const;  // 1, 0, or -1: not known
  int context_of(const std::string& type) const;
  bool has_break(std::string_view context) const;

  std::set<std::string> abbreviations_, starters_;
  std::set<std::pair<std::string, std::string>> collocations_;
  std::map<std::string, int> contexts_;  // bits: where a word occurs with a capital letter and without
};

}  // namespace stoa::eval
