// Decoders of tokens that stand for bytes: ByteLevel, ByteFallback.
#pragma once

#include "token/byte_alphabet.h"
#include "token/decoders/decoder.h"

namespace stoa::token {

// Characters of the byte alphabet become bytes; a token with another character stays as it is. The result is
// one text of any bytes: what is not UTF-8 in it is left to whoever shows it.
class ByteLevelDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override;

 private:
  const ByteAlphabet alphabet_;
};

// Tokens <0xNN> become bytes; each byte of a run that is not UTF-8 becomes U+FFFD.
class ByteFallbackDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override;
};

}  // namespace stoa::token
