// The byte alphabet of byte-level BPE (GPT-2, encoder.py): every byte is a printable character in vocabulary
// files. Bytes 33-126, 161-172, 174-255 stand for themselves, the other 68 are U+0100 … U+0143 in order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stoa::token {

class ByteAlphabet {
 public:
  ByteAlphabet();
  char32_t symbol(std::uint8_t byte) const { return symbol_[byte]; }
  // "Ġthe" -> " the"; nothing when a character is not of the alphabet.
  std::optional<std::string> to_bytes(std::string_view symbols) const;
  // " the" -> "Ġthe".
  std::string to_symbols(std::string_view bytes) const;

 private:
  std::array<char32_t, 256> symbol_{};
  std::array<std::int16_t, 0x144> byte_{};  // -1: no symbol
};

}  // namespace stoa::token
