// Requests as tokens, by the rules of lm-evaluation-harness's model `hf` (lm_eval/models/huggingface.py).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/ruler/making.h"
#include "token/encoder.h"

namespace stoa::eval {

// Tokens of a context and of what is to follow it.
struct EncodedPair {
  std::vector<std::int32_t> context, continuation;
};

class RequestEncoder {
 public:
  // Whether a beginning-of-text token is added to texts is decided by the tokenizer's files, or by `add_bos`.
  RequestEncoder(const token::Tokenizer& tokenizer, std::optional<bool> add_bos);

  // White space at the end of the context belongs to the continuation; both are encoded as one text and split
  // by count. An empty context is the beginning-of-text token, or the end-of-text token where there is none.
  // DataError: an empty continuation, or neither token.
  EncodedPair pair(const std::string& context, const std::string& continuation);
  std::vector<std::int32_t> text(const std::string& text);
  // DataError: the tokenizer has neither a beginning-of-text nor an end-of-text token.
  std::int32_t prefix() const;

 private:
  std::vector<std::int32_t> encoded(const std::string& text, bool special);

  token::Encoder encoder_;
  const std::optional<bool> add_bos_;
  std::optional<std::int32_t> prefix_;
  std::string prefix_text_;
};

// Counts the tokens that RequestEncoder::text() makes.
TokenCount token_count(const token::Tokenizer& tokenizer, std::optional<bool> add_bos);

// Windows over a text's tokens: every token is predicted once, full windows have one token of context, the
// last is filled up with context (lm_eval/utils.py, get_rolling_token_windows).
std::vector<EncodedPair> rolling_windows(const std::vector<std::int32_t>& tokens, std::int32_t prefix,
                                         std::int64_t window);

}  // namespace stoa::eval
