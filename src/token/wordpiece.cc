#include "token/wordpiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "token/unicode.h"

namespace stoa::token {
namespace {

constexpr char32_t kReplacementCharacter = 0xFFFD;
constexpr char32_t kFirstSyllable = 0xAC00, kEndOfSyllables = 0xD7A4;

// Canonical decomposition of a Hangul syllable (Unicode Standard, section 3.12).
template <class F>
void decompose_syllable(char32_t c, F&& f) {
  const char32_t index = c - kFirstSyllable;
  f(0x1100 + index / 588);
  f(0x1161 + index % 588 / 28);
  if (index % 28 != 0) f(0x11A7 + index % 28);
}

CodePoint read(const char* p, const char* end) {
  CodePoint c = read_utf8(p, end);
  if (!c.valid) c.value = kReplacementCharacter;
  return c;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
}

}  // namespace

WordPiece::WordPiece(WordPieceOptions options, const Ids& ids, TokenId unknown)
    : options_(std::move(options)),
      strip_(options_.strip_accents.value_or(options_.lowercase)),
      ids_(&ids),
      unknown_(unknown) {
  for (const auto& [token, id] : ids) longest_ = std::max(longest_, token.size());
  for (unsigned c = 0; c < 128; ++c) {
    const std::uint8_t bits = unicode_.classes(c);
    ascii_class_[c] = bits;
    char to = static_cast<char>(c);
    if (options_.clean_text && (bits & BertUnicode::kRemoved) != 0) to = 0;
    if (options_.clean_text && (bits & BertUnicode::kSpace) != 0) to = ' ';
    if (options_.lowercase && to >= 'A' && to <= 'Z') to = static_cast<char>(to + 'a' - 'A');
    ascii_[c] = to;
  }
}

void WordPiece::append_normalized(char32_t c, std::string& out) const {
  const auto lower = [&](char32_t each) {
    if (!options_.lowercase) return append_utf8(each, out);
    unicode_.lowered().apply(each, [&](char32_t to) { append_utf8(to, out); });
  };
  if (!strip_) return lower(c);
  if ((unicode_.classes(c) & BertUnicode::kMark) != 0) return;
  if (c >= kFirstSyllable && c < kEndOfSyllables) return decompose_syllable(c, lower);
  unicode_.stripped().apply(c, lower);
}

void WordPiece::normalize(std::string_view text, std::string& out) const {
  out.clear();
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const auto byte = static_cast<std::uint8_t>(*p);
    if (byte < 128) {
      // A zero that clean_text leaves is kept.
      if (ascii_[byte] != 0 || !options_.clean_text) out.push_back(ascii_[byte]);
      ++p;
      continue;
    }
    const CodePoint c = read(p, end);
    p += c.length;
    const std::uint8_t bits = unicode_.classes(c.value);
    if (options_.clean_text && (bits & BertUnicode::kRemoved) != 0) continue;
    if (options_.clean_text && (bits & BertUnicode::kSpace) != 0) {
      out.push_back(' ');
      continue;
    }
    const bool apart = options_.handle_chinese_chars && (bits & BertUnicode::kChinese) != 0;
    if (apart) out.push_back(' ');
    append_normalized(c.value, out);
    if (apart) out.push_back(' ');
  }
}

std::size_t WordPiece::next_word(const char* p, const char* end, std::size_t& skip) const {
  const auto step = [&](const char* at, std::uint8_t& length) -> std::uint8_t {
    const auto byte = static_cast<std::uint8_t>(*at);
    length = 1;
    if (byte < 128) return ascii_class_[byte];
    const CodePoint c = read(at, end);
    length = c.length;
    return unicode_.classes(c.value);
  };
  skip = 0;
  std::uint8_t length = 0, bits = 0;
  while (p < end && ((bits = step(p, length)) & BertUnicode::kCut) != 0) p += length, skip += length;
  if (p == end) return 0;
  if ((bits & BertUnicode::kPunctuation) != 0) return length;
  const char* begin = p;
  do {
    p += length;
  } while (p < end && (step(p, length) & (BertUnicode::kCut | BertUnicode::kPunctuation)) == 0);
  return static_cast<std::size_t>(p - begin);
}

void WordPiece::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  const auto continues = [](char c) { return (static_cast<std::uint8_t>(c) & 0xC0) == 0x80; };
  const auto characters = std::count_if(word.begin(), word.end(), [&](char c) { return !continues(c); });
  const std::size_t before = out.size();
  if (characters > options_.max_characters) return out.push_back(unknown_);
  std::string piece;
  for (std::size_t begin = 0; begin < word.size();) {
    piece.assign(begin > 0 ? options_.prefix : "");
    const std::size_t lead = piece.size();
    std::size_t end = std::min(word.size(), begin + (longest_ > lead ? longest_ - lead : 0));
    while (end > begin && end < word.size() && continues(word[end])) --end;
    piece.append(word, begin, end - begin);
    Ids::const_iterator found = ids_->end();
    for (; end > begin; piece.resize(lead + (end - begin))) {
      found = ids_->find(std::string_view(piece));
      if (found != ids_->end()) break;
      do --end;
      while (end > begin && continues(word[end]));
    }
    if (end == begin) {
      out.resize(before);
      return out.push_back(unknown_);
    }
    out.push_back(found->second);
    begin = end;
  }
}

std::string WordPiece::decoded(std::string_view token, bool first) const {
  std::string out;
  if (first)
    out = token;
  else if (token.starts_with(options_.prefix))
    out = token.substr(options_.prefix.size());
  else
    out = fmt::format(" {}", token);
  if (!options_.cleanup) return out;
  static constexpr std::pair<std::string_view, std::string_view> kCleanups[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kCleanups) replace_all(out, from, to);
  return out;
}

}  // namespace stoa::token
