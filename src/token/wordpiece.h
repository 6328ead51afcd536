// WordPiece (Wu et al. 2016) as BERT uses it: text is normalized, cut at white space and around punctuation,
// and every word becomes the longest pieces of the vocabulary from left to right, or the unknown token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "token/bert_unicode.h"
#include "token/bpe.h"

namespace stoa::token {

// Fields of BertNormalizer, the WordPiece model and its decoder in a tokenizer.json.
struct WordPieceOptions {
  bool clean_text = true;             // control characters go, white space becomes blanks
  bool handle_chinese_chars = true;   // every ideograph is a word
  std::optional<bool> strip_accents;  // none: as lowercase
  bool lowercase = true;
  std::string prefix = "##";          // of pieces that continue a word
  std::int64_t max_characters = 100;  // longer words are unknown
  bool cleanup = true;                // decoding takes blanks before punctuation away
};

class WordPiece {
 public:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  using Ids = std::unordered_map<std::string, TokenId, Hash, std::equal_to<>>;

  // `ids`: the vocabulary; it outlives this.
  WordPiece(WordPieceOptions options, const Ids& ids, TokenId unknown);

  const WordPieceOptions& options() const { return options_; }
  // Normalized text. A byte that is not UTF-8 counts as U+FFFD.
  void normalize(std::string_view text, std::string& out) const;
  // Length of the word or punctuation mark at p < end of normalized text; 0 with `skip` bytes of white space
  // before the next.
  std::size_t next_word(const char* p, const char* end, std::size_t& skip) const;
  // Appends the pieces of one word.
  void encode_word(std::string_view word, std::vector<TokenId>& out) const;
  // What a token becomes in decoded text; `first`: no token is before it.
  std::string decoded(std::string_view token, bool first) const;

 private:
  void append_normalized(char32_t c, std::string& out) const;

  const WordPieceOptions options_;
  const bool strip_;
  const BertUnicode unicode_;
  const Ids* ids_;
  const TokenId unknown_;
  std::size_t longest_ = 0;  // bytes of a token
  char ascii_[128];          // normalized ASCII; 0: removed
  std::uint8_t ascii_class_[128];
};

}  // namespace stoa::token
