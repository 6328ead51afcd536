// Tuning samples as tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "token/tokenizer.h"
#include "tune/record.h"

namespace stoa::tune {

struct EncodedText {
  std::vector<token::TokenId> tokens;
  std::vector<std::uint8_t> trained;  // by token: 1 where the model is trained to predict it

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t trained_tokens() const;  // the first token is predicted by none
};

// One text, or a pair of which the first is preferred.
struct EncodedSample {
  EncodedText text;
  std::optional<EncodedText> rejected;
  std::optional<bool> desirable;
  std::int64_t record = 0;           // among all that were read, from 0
  double margin = 0;                 // of a pair (tune/record.h)
  std::optional<double> score = {};  // of a text

  std::int64_t size() const { return text.size() + (rejected ? rejected->size() : 0); }
};

}  // namespace stoa::tune
