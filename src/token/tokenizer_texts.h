// The files of a tokenizer as texts: for who stores them elsewhere than in a directory of their own.
#pragma once

#include <string>
#include <vector>

#include "token/tokenizer.h"

namespace stoa::token {

struct TokenizerText {
  std::string name, text;  // "tokenizer.json"
};

// What Tokenizer::save() writes; tokenizer.json, where there is one, is the last.
std::vector<TokenizerText> tokenizer_texts(const Tokenizer& tokenizer);

}  // namespace stoa::token
