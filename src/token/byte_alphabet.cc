#include "token/byte_alphabet.h"

#include "token/unicode.h"

namespace stoa::token {

ByteAlphabet::ByteAlphabet() {
  byte_.fill(-1);
  char32_t extra = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const char32_t c = printable ? static_cast<char32_t>(b) : extra++;
    symbol_[static_cast<std::size_t>(b)] = c;
    byte_[c] = static_cast<std::int16_t>(b);
  }
}

std::optional<std::string> ByteAlphabet::to_bytes(std::string_view symbols) const {
  std::string out;
  out.reserve(symbols.size());
  const char *p = symbols.data(), *end = p + symbols.size();
  while (p < end) {
    const CodePoint c = read_utf8(p, end);
    if (!c.valid || c.value >= byte_.size() || byte_[c.value] < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte_[c.value]));
    p += c.length;
  }
  return out;
}

std::string ByteAlphabet::to_symbols(std::string_view bytes) const {
  std::string out;
  out.reserve(bytes.size() + 8);
  for (const char b : bytes) append_utf8(symbol_[static_cast<std::uint8_t>(b)], out);
  return out;
}

}  // namespace stoa::token
