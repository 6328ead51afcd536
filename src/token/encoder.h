// Encodes much text on one thread: a Tokenizer plus a cache of the words seen.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "token/tokenizer.h"

namespace stoa::token {

// One per thread. The result does not depend on earlier texts.
class Encoder {
 public:
  enum class Cache { kNone, kWords };  // kWords: 4 MB, kept between texts
  explicit Encoder(Tokenizer tokenizer, Cache cache = Cache::kWords);
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) = delete;

  const Tokenizer& tokenizer() const { return tokenizer_; }
  // Appends the ids of `text`.
  void encode(std::string_view text, EncodeOptions options, std::vector<TokenId>& out);

 private:
  struct WordCache;
  struct Components;
  void encode_ordinary(std::string_view text, EncodeOptions options, std::vector<TokenId>& out);
  void encode_components(std::string_view text, EncodeOptions options, std::vector<TokenId>& out);
  void encode_cut(std::string_view text, std::vector<TokenId>& out);     // words of split kOther
  void encode_piece(std::string_view text, std::vector<TokenId>& out);   // ordinary text between added tokens
  void encode_pieces(std::string_view text, std::vector<TokenId>& out);  // of WordPiece form
  void encode_characters(std::string_view text, std::vector<TokenId>& out);  // of sentencepiece form
  template <SplitPattern pattern>
  void encode_words(const char* p, const char* end, std::vector<TokenId>& out);
  void encode_word(std::string_view word, std::vector<TokenId>& out);

  const Tokenizer tokenizer_;
  std::unique_ptr<WordCache> cache_;
  std::unique_ptr<Components> components_;  // of form kComponents and of split kOther
  MergeScratch scratch_;
  std::vector<TokenId> symbols_;
  std::string valid_, normalized_, prefixed_;
  std::vector<AddedTokenFinder::Piece> pieces_, inner_;
};

}  // namespace stoa::token
