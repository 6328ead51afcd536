#include "curate/text/canonical_form.h"

#include <algorithm>

namespace stoa::curate {
namespace {

// Hangul syllables are computed (Unicode, section 3.12).
constexpr char32_t kSyllable = 0xac00, kLeading = 0x1100, kFirstVowel = 0x1161, kTrailing = 0x11a7;
constexpr char32_t kLeadingCount = 19, kVowelCount = 21, kTrailingCount = 28;
constexpr char32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;

std::uint64_t parts_key(char32_t first, char32_t second) {
  return static_cast<std::uint64_t>(first) << 32 | second;
}

}  // namespace

CanonicalForm::CanonicalForm() : rows_(256) {
  for (const CanonicalPair& pair : canonical_pairs()) {
    Row& to = row(pair.composed);
    to.first = pair.first;
    to.second = pair.second;
    if (pair.composes) compositions_.push_back({parts_key(pair.first, pair.second), pair.composed});
  }
  std::sort(compositions_.begin(), compositions_.end(),
            [](const Composition& a, const Composition& b) { return a.parts < b.parts; });
  const auto runs = combining_class_runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto combining = static_cast<std::uint8_t>(runs[i]);
    const char32_t end = i + 1 < runs.size() ? runs[i + 1] >> 8 : 0x110000;
    if (combining != 0)
      for (char32_t c = runs[i] >> 8; c < end; ++c) row(c).combining = combining;
  }
}

CanonicalForm::Row& CanonicalForm::row(char32_t c) {
  std::uint16_t& page = page_[c >> 8];
  if (page == 0) {
    page = static_cast<std::uint16_t>(rows_.size() >> 8);
    rows_.resize(rows_.size() + 256);
  }
  return rows_[static_cast<std::size_t>(page) << 8 | (c & 255)];
}

void CanonicalForm::decompose(char32_t c, std::u32string& out) const {
  if (c >= kSyllable && c < kSyllable + kSyllableCount) {
    const char32_t index = c - kSyllable;
    out += kLeading + index / (kVowelCount * kTrailingCount);
    out += kFirstVowel + index / kTrailingCount % kVowelCount;
    if (index % kTrailingCount != 0) out += kTrailing + index % kTrailingCount;
    return;
  }
  const Row& from = row(c);
  if (from.first == 0) {
    out += c;
    return;
  }
  decompose(from.first, out);
  if (from.second != 0) decompose(from.second, out);
}

char32_t CanonicalForm::composite(char32_t first, char32_t second) const {
  if (first >= kLeading && first < kLeading + kLeadingCount && second >= kFirstVowel &&
      second < kFirstVowel + kVowelCount)
    return kSyllable + ((first - kLeading) * kVowelCount + (second - kFirstVowel)) * kTrailingCount;
  if (first >= kSyllable && first < kSyllable + kSyllableCount && (first - kSyllable) % kTrailingCount == 0 &&
      second > kTrailing && second < kTrailing + kTrailingCount)
    return first + (second - kTrailing);
  const std::uint64_t key = parts_key(first, second);
  const auto found = std::lower_bound(compositions_.begin(), compositions_.end(), key,
                                      [](const Composition& c, std::uint64_t k) { return c.parts < k; });
  return found != compositions_.end() && found->parts == key ? found->composed : 0;
}

void CanonicalForm::compose(std::u32string& text) const {
  std::u32string apart;
  apart.reserve(text.size());
  for (const char32_t c : text) decompose(c, apart);
  for (std::size_t i = 0; i < apart.size();) {  // marks of different classes have one order
    std::size_t end = i;
    while (end < apart.size() && row(apart[end]).combining != 0) ++end;
    std::stable_sort(apart.begin() + static_cast<std::ptrdiff_t>(i),
                     apart.begin() + static_cast<std::ptrdiff_t>(end),
                     [this](char32_t a, char32_t b) { return row(a).combining < row(b).combining; });
    i = end + 1;
  }
  text.clear();
  constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t starter = kNone;
  int last = -1;  // class of the character before, where it stands after the starter; -1: none does
  for (const char32_t c : apart) {
    const int combining = row(c).combining;
    if (starter != kNone && last < combining) {  // nothing between them blocks it
      if (const char32_t whole = composite(text[starter], c)) {
        text[starter] = whole;
        continue;
      }
    }
    if (combining == 0) {
      starter = text.size();
      last = -1;
    } else {
      last = combining;
    }
    text += c;
  }
}

const CanonicalForm& canonical_form() {
  static const CanonicalForm form;
  return form;
}

}  // namespace stoa::curate
