// The words that a language model sees of a line of text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "token/tokenizer.h"

namespace stoa::curate {

struct ModelWordOptions {
  std::string tokenizer;  // folder or file: its tokens are the words; empty: pieces between white space
  bool normalize = true;  // as CCNet before its models: lower case, digits as 0, no accents, marks of ASCII
};

class ModelWords {
 public:
  // IoError, DataError: the tokenizer cannot be read.
  explicit ModelWords(const ModelWordOptions& options);

  struct Line {
    std::string text;  // in another form, or the names of its tokens
    std::vector<std::string_view>
        words;  // views into it or into what was split, until the line is used again
  };
  // Threads may call it at the same time, with lines of their own.
  void split(std::string_view text, Line& line) const;

 private:
  const bool normalize_;
  std::optional<token::Tokenizer> tokenizer_;
};

// text_normalizer.normalize() of CCNet 1.0, whose language models were trained on what it gives.
std::string ccnet_model_form(std::string_view text);

}  // namespace stoa::curate
