// Tokens of a text together with the characters that each came from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "token/tokenizer.h"

namespace stoa::token {

struct Encoding {
  std::vector<TokenId> ids;
  // Characters begin..end of the text, of which a byte that is not UTF-8 counts as one. [0, 0] for tokens
  // that add_special put around it.
  struct Offsets {
    std::uint32_t begin, end;
  };
  std::vector<Offsets> offsets;
};

// Runs the components of the tokenizer one after another, whatever shorter way there is for ids alone. One
// per thread.
class OffsetEncoder {
 public:
  // DataError for a SentencePiece model, which has no components.
  explicit OffsetEncoder(const Tokenizer& tokenizer);
  ~OffsetEncoder();
  void encode(std::string_view text, EncodeOptions options, Encoding& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoa::token
