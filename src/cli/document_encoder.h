// The tokenizer as `data` sees it: the two folders do not know each other.
#pragma once

#include "data/prepare.h"
#include "token/tokenizer.h"

namespace stoa::cli {

class TokenizerEncoder final : public data::DocumentEncoder {
 public:
  TokenizerEncoder(token::Tokenizer tokenizer, token::EncodeOptions options)
      : tokenizer_(std::move(tokenizer)), options_(options) {}
  std::unique_ptr<Session> session() const override;
  std::int64_t vocabulary() const override { return tokenizer_.vocab_size(); }
  std::int32_t eod_id() const override { return tokenizer_.eod_id().value_or(-1); }
  std::string fingerprint() const override { return tokenizer_.fingerprint(); }

 private:
  const token::Tokenizer tokenizer_;
  const token::EncodeOptions options_;
};

}  // namespace stoa::cli
