// Tokens that are found in the text before it is split: special tokens and words added to a trained
// vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "token/bpe.h"
#include "token/unicode.h"

namespace stoa::token {

// An entry of "added_tokens" in tokenizer.json.
struct AddedToken {
  TokenId id = -1;
  std::string content;
  bool special = true;       // skipped by decode on request, text with `plain`
  bool single_word = false;  // only where no word character (\w) touches it
  bool lstrip = false;       // swallows the white space before it
  bool rstrip = false;       // and after it
  bool normalized = false;   // matched after normalization, in its normalized form
  bool operator==(const AddedToken&) const = default;
};

// Leftmost-longest search for one set of tokens, as Hugging Face: a match that is then refused (single_word,
// special tokens with `plain`) still ends the search at its place.
class AddedTokenFinder {
 public:
  // `patterns[i]` is the text that stands for `tokens[i]`.
  void add(const AddedToken& token, std::string_view pattern);
  bool empty() const { return tokens_.empty(); }

  struct Piece {
    std::string_view text;
    TokenId id;  // -1: ordinary text
  };
  // Cuts `text` into ordinary pieces and tokens, in order.
  void cut(std::string_view text, bool plain, const UnicodeClasses& classes, std::vector<Piece>& out) const;

 private:
  struct Node {
    std::vector<std::pair<std::uint8_t, std::int32_t>> children;  // sorted
    std::int32_t token = -1;
  };
  std::vector<Node> nodes_{1};
  std::vector<AddedToken> tokens_;
  std::array<bool, 256> first_{};
  int distinct_first_ = 0;
  char only_first_ = 0;
};

}  // namespace stoa::token
