#include "token/stream_decoder.h"

#include <simdjson.h>

#include "token/unicode.h"

namespace stoa::token {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length of the longest beginning of a valid character at p (p does not start a whole one): 1..3. `open`
// tells that it reaches `end`, so that more bytes could complete it.
std::size_t invalid_prefix(const char* p, const char* end, bool& open) {
  const auto byte = [p](std::ptrdiff_t i) { return static_cast<std::uint8_t>(p[i]); };
  open = false;
  const std::uint8_t a = byte(0);
  const int length = a >= 0xC2 && a < 0xE0 ? 2 : a >= 0xE0 && a < 0xF0 ? 3 : a >= 0xF0 && a < 0xF5 ? 4 : 1;
  if (length == 1) return 1;
  if (end - p == 1) return open = true, 1;
  const std::uint8_t low = a == 0xE0 ? 0xA0 : a == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t high = a == 0xED ? 0x9F : a == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 1;
  std::ptrdiff_t n = 2;
  while (n < length && n < end - p && (byte(n) & 0xC0) == 0x80) ++n;
  open = n < length && n == end - p;
  return static_cast<std::size_t>(n);
}

}  // namespace

StreamDecoder::StreamDecoder(Tokenizer tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

std::string StreamDecoder::push(TokenId id) {
  if (tokenizer_.spec().form == SymbolForm::kComponents) {
    recent_.push_back(id);
    return grow(false);
  }
  const std::string_view bytes = tokenizer_.token_bytes(id);
  if (options_.skip_special && tokenizer_.is_special(id)) return {};
  pending_.append(bytes);
  return drain(false);
}

std::string StreamDecoder::finish() {
  return tokenizer_.spec().form == SymbolForm::kComponents ? grow(true) : drain(true);
}

// What a token is in the text depends on its neighbours: the tokens given last are decoded again with the new
// ones, and what was given is left out. A text that ends within a character waits for the next token.
std::string StreamDecoder::grow(bool last) {
  std::string text = replace_invalid_utf8(tokenizer_.decode(recent_, options_));
  if ((text.ends_with(kReplacement) && !last) || text.size() <= given_.size()) return {};
  std::string out = text.substr(given_.size());
  recent_.erase(recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(given_ids_));
  given_ = replace_invalid_utf8(tokenizer_.decode(recent_, options_));
  given_ids_ = recent_.size();
  return out;
}

std::string StreamDecoder::drain(bool last) {
  std::string out;
  const char *p = pending_.data(), *end = p + pending_.size();
  while (p < end) {
    const CodePoint c = read_utf8(p, end);
    if (c.valid) {
      out.append(p, c.length);
      p += c.length;
      continue;
    }
    bool open = false;
    const std::size_t n = invalid_prefix(p, end, open);
    if (open && !last) break;
    out.append(kReplacement);
    p += n;
  }
  pending_.erase(0, static_cast<std::size_t>(p - pending_.data()));
  return out;
}

std::string_view valid_utf8(std::string_view text, std::string& storage) {
  if (simdjson::validate_utf8(text.data(), text.size())) return text;
  return storage = replace_invalid_utf8(text);
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  const char *p = bytes.data(), *end = p + bytes.size();
  while (p < end) {
    const CodePoint c = read_utf8(p, end);
    bool open = false;
    const std::size_t n = c.valid ? c.length : invalid_prefix(p, end, open);
    if (c.valid) {
      out.append(p, n);
    } else {
      out.append(kReplacement);
    }
    p += n;
  }
  return out;
}

}  // namespace stoa::token
