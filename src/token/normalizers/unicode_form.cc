#include "token/normalizers/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <optional>

namespace stoa::token {
namespace {

// A character of the decomposed text with its canonical combining class.
struct Decomposed {
  char32_t character;
  std::int32_t change;
  std::uint8_t combining;
};

// Only what the normalizer's Unicode knows combines.
std::uint8_t combining_class(char32_t c, const CharacterTables& tables) {
  if (c < 0x300 || !tables.classes.combines({c, 1, true})) return 0;
  return static_cast<std::uint8_t>(utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class);
}

template <class F>
void decompose(char32_t c, bool compatible, const CharacterTables& tables, F&& f) {
  const auto property = compatible ? UnicodeProperties::kCompatible : UnicodeProperties::kCanonical;
  const bool syllable = c >= 0xAC00 && c < 0xD7A4;
  if (c < 0x80 || (!syllable && !tables.properties.has(c, property))) return f(c);
  utf8proc_int32_t parts[32];
  int last_class = 0;
  const auto n = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), parts, 32,
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0)), &last_class);
  require<InternalError>(n > 0 && n <= 32, "U+{:04X} has no decomposition", static_cast<std::uint32_t>(c));
  for (utf8proc_ssize_t i = 0; i < n; ++i) f(static_cast<char32_t>(parts[i]));
}

std::optional<char32_t> composed(char32_t first, char32_t second, const CharacterTables& tables) {
  if (!tables.classes.combines({second, 1, true}) || tables.classes.is_barrier({first, 1, true}))
    return std::nullopt;
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  const auto n =
      utf8proc_normalize_utf32(pair, 2, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (n != 1) return std::nullopt;
  return static_cast<char32_t>(pair[0]);
}

// Composes in place; returns the new length. The marks that do not join stay behind the character that they
// follow.
std::size_t compose(std::vector<Decomposed>& text, const CharacterTables& tables) {
  std::size_t out = 0;
  std::optional<std::size_t> starter;  // in the composed part
  std::uint8_t last = 0;               // class of what stands before, after the starter
  for (const Decomposed c : text) {
    if (starter && (*starter + 1 == out || (last != 0 && last < c.combining))) {
      if (const auto joined = composed(text[*starter].character, c.character, tables)) {
        text[*starter].character = *joined;
        text[*starter].change += c.change - 1;
        continue;
      }
    }
    if (c.combining == 0) starter = out;
    last = c.combining;
    text[out++] = c;
  }
  return out;
}

}  // namespace

void to_unicode_form(AlignedText& text, UnicodeFormOptions form, const CharacterTables& tables) {
  const auto high = [](char c) { return static_cast<signed char>(c) < 0; };
  if (std::none_of(text.text().begin(), text.text().end(), high)) return;
  std::vector<Decomposed> all;
  std::size_t pending = 0;  // marks since the last character that does not combine
  const auto sort = [&] {
    if (all.size() - pending > 1)
      std::stable_sort(all.begin() + static_cast<std::ptrdiff_t>(pending), all.end(),
                       [](const auto& a, const auto& b) { return a.combining < b.combining; });
  };
  const std::string_view source = text.text();
  for (const char *p = source.data(), *end = p + source.size(); p < end;) {
    const CodePoint c = read_utf8(p, end);
    p += c.length;
    std::int32_t change = 0;
    decompose(c.value, form.compatible, tables, [&](char32_t part) {
      const std::uint8_t combining = combining_class(part, tables);
      if (combining == 0) sort();
      all.push_back({part, change, combining});
      if (combining == 0) pending = all.size();
      change = 1;
    });
  }
  sort();
  if (form.compose) all.resize(compose(all, tables));
  std::vector<CharacterChange> changes;
  changes.reserve(all.size());
  for (const Decomposed& c : all) changes.push_back({c.character, c.change});
  text.change(changes);
}

void UnicodeForm::apply(AlignedText& text, RegexScratch&) const { to_unicode_form(text, form_, *tables_); }

}  // namespace stoa::token
