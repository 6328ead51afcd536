// The character map of a SentencePiece model (Precompiled): a double array over bytes and the texts that it
// leads to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "token/normalizers/normalizer.h"

namespace stoa::token {

class Precompiled final : public Normalizer {
 public:
  // The bytes of precompiled_charsmap: length of the array in bytes, the array (32-bit units of Darts-clone),
  // texts that end with a zero. DataError when they are none.
  Precompiled(std::string_view charsmap, Tables tables);
  void apply(AlignedText& text, RegexScratch& scratch) const override;

 private:
  // What the shortest beginning of `text` that the map knows becomes.
  std::optional<std::string_view> mapped(std::string_view text) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
  const Tables tables_;
};

// DataError when `text` is not base64.
std::string decode_base64(std::string_view text, std::string_view where);

}  // namespace stoa::token
