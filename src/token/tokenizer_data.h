// Private to src/token: the tables behind a Tokenizer.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "token/pipeline/pipeline.h"
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
  // Whether added tokens are found by what the normalizer makes of them.
  bool normalizes() const {
    return spec.nfc || wordpiece || (spec.pipeline && spec.pipeline->parts().normalizer);
  }
  // What a token of components is in the text, without what stands before it.
  std::string_view component_bytes(std::size_t id) const;

  TokenizerSpec spec;
  ByteAlphabet alphabet;
  Splitter splitter;
  std::vector<std::string>
      bytes;  // by id: what the token decodes to; of components empty, or what a decoder is given
  std::vector<bool> special;      // by id
  IdMap ids;                      // vocabulary, in the byte alphabet
  IdMap added_ids;                // by content
  IdMap whole_words;              // by bytes; filled with ignore_merges only
  std::vector<TokenId> byte_ids;  // -1 for bytes that no UTF-8 text holds
  bool lacks_bytes = false;       // there are such: texts that are not UTF-8 get U+FFFD instead
  std::unique_ptr<const Bpe> bpe;
  std::unique_ptr<const WordPiece> wordpiece;  // of that form
  AddedTokenFinder raw_finder, normalized_finder;
  std::optional<TokenId> bos, eos, pad, unk, eod, cls, sep, mask;
  std::string fingerprint;

 private:
  // Made when first asked for: decoding every token alone takes a while.
  mutable std::once_flag component_bytes_made_;
  mutable std::vector<std::string> component_bytes_;
};

}  // namespace stoa::token
