// Text of tokens that come one at a time.
#pragma once

#include <string>

#include "token/tokenizer.h"

namespace stoa::token {

// Emits complete UTF-8 only: the bytes of an unfinished character wait for the next token. Bytes that can no
// longer become a character are emitted as U+FFFD, one per maximal invalid sequence (Unicode 16,
// section 3.9), as Python and Hugging Face write them.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, DecodeOptions options = {});
  std::string push(TokenId id);  // the text that has become certain
  std::string finish();          // the rest

 private:
  std::string drain(bool last);
  std::string grow(bool last);  // of components: the text of a few tokens, without what was given before
  const Tokenizer tokenizer_;
  const DecodeOptions options_;
  std::string pending_;
  std::vector<TokenId> recent_;  // of components: tokens whose text is `given_` and on
  std::size_t given_ids_ = 0;    // how many of them have been given
  std::string given_;
};

// `bytes` as UTF-8, what is invalid replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view bytes);
// `text` itself where it is UTF-8, else the same in `storage`.
std::string_view valid_utf8(std::string_view text, std::string& storage);

}  // namespace stoa::token
