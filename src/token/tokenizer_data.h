// Private to src/token: the tables behind a Tokenizer.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "token/tokenizer.h"

namespace stoa::token {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};
using IdMap = std::unordered_map<std::string, TokenId, StringHash, std::equal_to<>>;

struct Tokenizer::Data {
  explicit Data(TokenizerSpec given);

  TokenizerSpec spec;
  ByteAlphabet alphabet;
  Splitter splitter;
  std::vector<std::string> bytes;                             // by id: what the token decodes to
  std::vector<bool> special;                                  // by id
  IdMap ids;                                                  // vocabulary, in the byte alphabet
  IdMap added_ids;                                            // by content
  std::unordered_map<std::string_view, TokenId> whole_words;  // by bytes; filled with ignore_merges only
  std::vector<TokenId> byte_ids;
  std::unique_ptr<const Bpe> bpe;
  AddedTokenFinder raw_finder, normalized_finder;
  std::optional<TokenId> bos, eos, pad, unk, eod;
  std::string fingerprint;
};

}  // namespace stoa::token
