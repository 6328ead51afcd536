#include "constraint/code_set.h"

#include <algorithm>

#include "token/unicode.h"

namespace stoa::constraint {
namespace {

constexpr char32_t kLast = 0x10FFFF, kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

// The bytes of a character, all of which have the same count as the others of its range.
std::vector<std::uint8_t> bytes_of(char32_t c) {
  std::string text;
  append_utf8(c, text);
  return {text.begin(), text.end()};
}

// Splits a range of characters of equally many bytes until its sequences are products of ranges of bytes.
void split(char32_t first, char32_t last, std::vector<std::vector<ByteRange>>& out) {
  const auto from = bytes_of(first), to = bytes_of(last);
  const std::size_t n = from.size();
  for (std::size_t tail = 1; tail < n; ++tail) {
    // Below this many last bytes, either all characters of a block or one block.
    const char32_t mask = (char32_t{1} << (6 * tail)) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      split(first, first | mask, out);
      return split((first | mask) + 1, last, out);
    }
    if ((last & mask) != mask) {
      split(first, (last & ~mask) - 1, out);
      return split(last & ~mask, last, out);
    }
  }
  std::vector<ByteRange> sequence;
  for (std::size_t i = 0; i < n; ++i) sequence.push_back({from[i], to[i]});
  out.push_back(std::move(sequence));
}

}  // namespace

const CodeSet& CodeSet::all() {
  static const CodeSet set{{0, kLast}};
  return set;
}

void CodeSet::add(char32_t first, char32_t last) {
  last = std::min(last, kLast);
  if (first > last) return;
  if (first <= kLastSurrogate && last >= kFirstSurrogate) {
    if (first < kFirstSurrogate) add(first, kFirstSurrogate - 1);
    if (last > kLastSurrogate) add(kLastSurrogate + 1, last);
    return;
  }
  const auto begin = std::lower_bound(ranges_.begin(), ranges_.end(), first,
                                      [](const CodeRange& r, char32_t c) { return r.last + 1 < c; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= last + 1; ++end) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
  }
  ranges_.insert(ranges_.erase(begin, end), {first, last});
}

CodeSet CodeSet::complement() const {
  CodeSet out;
  char32_t next = 0;
  for (const CodeRange& r : ranges_) {
    if (r.first > next) out.add(next, r.first - 1);
    next = r.last + 1;
  }
  out.add(next, kLast);
  return out;
}

CodeSet CodeSet::intersection(const CodeSet& other) const {
  CodeSet out;
  for (auto a = ranges_.begin(), b = other.ranges_.begin(); a != ranges_.end() && b != other.ranges_.end();) {
    const char32_t first = std::max(a->first, b->first), last = std::min(a->last, b->last);
    if (first <= last) out.ranges_.push_back({first, last});
    (a->last < b->last ? a : b)++;
  }
  return out;
}

bool CodeSet::contains(char32_t c) const {
  const auto it = std::lower_bound(ranges_.begin(), ranges_.end(), c,
                                   [](const CodeRange& r, char32_t x) { return r.last < x; });
  return it != ranges_.end() && it->first <= c;
}

std::vector<std::vector<ByteRange>> utf8_sequences(CodeRange range) {
  std::vector<std::vector<ByteRange>> out;
  for (const CodeRange block :
       {CodeRange{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kLast}}) {
    const char32_t first = std::max(range.first, block.first), last = std::min(range.last, block.last);
    if (first <= last) split(first, last, out);
  }
  return out;
}

const CodeSet& ordinary_characters() {
  static const CodeSet set =
      CodeSet{{0, 0x1F}, {U'"', U'"'}, {U'\\', U'\\'}, {0x7F, 0x9F}, {0x2028, 0x2029}}.complement();
  return set;
}

const std::vector<std::vector<ByteRange>>& ordinary_sequences() {
  static const auto sequences = [] {
    std::vector<std::vector<ByteRange>> out;
    for (const CodeRange& range : ordinary_characters().ranges())
      for (auto& sequence : utf8_sequences(range)) out.push_back(std::move(sequence));
    return out;
  }();
  return sequences;
}

std::optional<std::vector<char32_t>> characters_of(std::string_view text) {
  std::vector<char32_t> out;
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const token::CodePoint c = token::read_utf8(p, end);
    if (!c.valid) return std::nullopt;
    out.push_back(c.value);
    p += c.length;
  }
  return out;
}

}  // namespace stoa::constraint
