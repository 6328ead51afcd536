// Private to src/token: the tables behind a Tokenizer.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "token/tokenizer.h"

namespace stoa::token {

// U+2581, a space in sentencepiece vocabularies.
inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";
using IdMap = WordPiece::Ids;

struct Tokenizer::Data {
  explicit Data(TokenizerSpec given);
  // What a token of the files decodes to.
  std::string decoded(std::string_view token) const;
  // As the tokenizer's normalizer makes it; `text` itself or a view of `storage`.
  std::string_view normalized(std::string_view text, std::string& storage) const;
  bool normalizes() const { return spec.nfc || wordpiece; }

  TokenizerSpec spec;
  ByteAlphabet alphabet;
  Splitter splitter;
  std::vector<std::string> bytes;  // by id: what the token decodes to
  std::vector<bool> special;       // by id
  IdMap ids;                       // vocabulary, in the byte alphabet
  IdMap added_ids;                 // by content
  IdMap whole_words;               // by bytes; filled with ignore_merges only
  std::vector<TokenId> byte_ids;
  std::unique_ptr<const Bpe> bpe;
  std::unique_ptr<const WordPiece> wordpiece;  // of that form
  AddedTokenFinder raw_finder, normalized_finder;
  std::optional<TokenId> bos, eos, pad, unk, eod, cls, sep, mask;
  std::string fingerprint;
};

}  // namespace stoa::token
