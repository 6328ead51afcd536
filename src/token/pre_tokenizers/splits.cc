#include "token/pre_tokenizers/splits.h"

#include <array>

namespace stoa::token {

SplitBehavior read_behavior(json::object o, std::optional<SplitBehavior> otherwise, std::string_view where) {
  if (otherwise && !member(o, "behavior")) return *otherwise;
  static constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames{
      {{"Removed", SplitBehavior::kRemoved},
       {"Isolated", SplitBehavior::kIsolated},
       {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
       {"MergedWithNext", SplitBehavior::kMergedWithNext},
       {"Contiguous", SplitBehavior::kContiguous}}};
  const std::string given = text_member(o, "behavior", where);
  for (const auto& [name, behavior] : kNames)
    if (name == given) return behavior;
  fail<DataError>(
      "{}.behavior is '{}', expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
      where, given);
}

void SplitAtPattern::apply(Pieces& pieces, PieceScratch& scratch) const {
  split_pieces(pieces, scratch, behavior_, invert_, [&](std::string_view text, std::vector<RegexMatch>& out) {
    pattern_.find_all(text, scratch.regex, out);
  });
}

void SplitAtCharacters::apply(Pieces& pieces, PieceScratch& scratch) const {
  const auto cut = [&](auto&& is) { split_at_characters(pieces, scratch, behavior_, false, is); };
  switch (kind_) {
    case Kind::kNumeric:
      return cut([&](char32_t c) { return tables_->properties.has(c, UnicodeProperties::kNumeric); });
    case Kind::kPunctuation:
      return cut([&](char32_t c) { return (tables_->bert.classes(c) & BertUnicode::kPunctuation) != 0; });
    case Kind::kSpace:
      return cut([&](char32_t c) { return (tables_->bert.classes(c) & BertUnicode::kCut) != 0; });
    case Kind::kDelimiter:
      return cut([&](char32_t c) { return c == delimiter_; });
  }
}

void SplitWords::apply(Pieces& pieces, PieceScratch& scratch) const {
  enum class Kind : std::uint8_t { kSpace, kWord, kOther };
  const auto kind = [&](CodePoint c) {
    if (tables_->classes.is_word(c)) return Kind::kWord;
    return (tables_->bert.classes(c.value) & BertUnicode::kCut) != 0 ? Kind::kSpace : Kind::kOther;
  };
  split_pieces(pieces, scratch, SplitBehavior::kRemoved, true,
               [&](std::string_view text, std::vector<RegexMatch>& out) {
                 Kind before = Kind::kSpace;
                 for (const char *first = text.data(), *p = first, *end = p + text.size(); p < end;) {
                   const CodePoint c = read_utf8(p, end);
                   const auto at = static_cast<std::uint32_t>(p - first);
                   p += c.length;
                   const Kind now = kind(c);
                   if (now != Kind::kSpace && now == before) {
                     out.back().end = at + c.length;
                   } else if (now != Kind::kSpace) {
                     out.push_back({at, at + c.length});
                   }
                   before = now;
                 }
               });
}

void SplitScripts::apply(Pieces& pieces, PieceScratch& scratch) const {
  PieceCutter(pieces, scratch).each([&](std::string_view text, auto&& add) {
    // Blanks in front belong to nothing: the library forgets them.
    std::optional<std::uint32_t> begin;
    std::uint8_t last = 0;
    for (const char *first = text.data(), *p = first, *end = p + text.size(); p < end;) {
      const CodePoint c = read_utf8(p, end);
      const auto at = static_cast<std::uint32_t>(p - first);
      p += c.length;
      const std::uint8_t script = tables_->properties.script(c.value);
      if (script == 0 || script == last) continue;
      if (begin) add(*begin, at);
      begin = at;
      last = script;
    }
    if (begin) add(*begin, static_cast<std::uint32_t>(text.size()));
  });
}

void SplitLengths::apply(Pieces& pieces, PieceScratch& scratch) const {
  PieceCutter(pieces, scratch).each([&](std::string_view text, auto&& add) {
    std::uint32_t begin = 0, at = 0;
    std::uint64_t held = 0;
    while (at < text.size()) {
      at += read_utf8(text.data() + at, text.data() + text.size()).length;
      if (++held < length_) continue;
      add(begin, at);
      begin = at, held = 0;
    }
    add(begin, at);
  });
}

void PreTokenizerSequence::apply(Pieces& pieces, PieceScratch& scratch) const {
  for (const auto& part : parts_) part->apply(pieces, scratch);
}

}  // namespace stoa::token
