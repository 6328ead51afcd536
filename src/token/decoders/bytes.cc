#include "token/decoders/bytes.h"

#include <charconv>
#include <optional>

namespace stoa::token {
namespace {

std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  // As Rust reads it: a sign in front is one.
  const char *begin = token.data() + 3, *end = token.data() + 5;
  if (*begin == '+') ++begin;
  unsigned byte = 0;
  const auto [stop, error] = std::from_chars(begin, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<char>(byte);
}

}  // namespace

void ByteLevelDecoder::apply(std::vector<std::string>& tokens) const {
  std::string all;
  for (const std::string& token : tokens) all += alphabet_.to_bytes(token).value_or(token);
  tokens.assign(1, std::move(all));
}

void ByteFallbackDecoder::apply(std::vector<std::string>& tokens) const {
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (simdjson::validate_utf8(bytes))
      out.push_back(bytes);
    else
      out.insert(out.end(), bytes.size(), "\uFFFD");
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of_token(token)) {
      bytes.push_back(*byte);
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  tokens.swap(out);
}

}  // namespace stoa::token
