#include "tune/token_offsets.h"

#include <algorithm>

namespace stoa::tune {

std::optional<std::vector<std::size_t>> token_ends(const token::Tokenizer& tokenizer, std::string_view text,
                                                   std::span<const token::TokenId> ids) {
  std::vector<std::size_t> ends;
  ends.reserve(ids.size());
  std::size_t at = 0;
  for (const token::TokenId id : ids) {
    std::string_view piece = tokenizer.token_bytes(id);
    const std::string_view rest = text.substr(at);
    // SentencePiece puts a space before a text that has none.
    if (!rest.starts_with(piece) && piece.starts_with(' ')) piece.remove_prefix(1);
    if (!rest.starts_with(piece)) return std::nullopt;
    at += piece.size();
    ends.push_back(at);
  }
  if (at != text.size()) return std::nullopt;
  return ends;
}

std::size_t token_at(token::Encoder& encoder, std::string_view text, std::span<const token::TokenId> ids,
                     std::size_t at, token::EncodeOptions options) {
  std::vector<token::TokenId> prefix;
  encoder.encode(text.substr(0, at), options, prefix);
  return static_cast<std::size_t>(std::mismatch(prefix.begin(), prefix.end(), ids.begin(), ids.end()).first -
                                  prefix.begin());
}

}  // namespace stoa::tune
