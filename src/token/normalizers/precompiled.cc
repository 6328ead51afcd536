#include "token/normalizers/precompiled.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace stoa::token {
namespace {

// The map is asked for whole graphemes up to this length; of longer ones for each character.
constexpr std::size_t kShortGrapheme = 6;

bool is_control(char32_t c) {
  if (c < 0x20 || c == 0x7F) return true;
  const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  return property->boundclass == UTF8PROC_BOUNDCLASS_CONTROL;
}

// Whether `c` is of one grapheme with the character before it (Unicode Standard Annex 29), as far as
// graphemes of less than kShortGrapheme bytes are concerned: syllables, flags and joined emoji are longer.
bool joins(char32_t before, char32_t c, const CharacterTables& tables) {
  if (before == U'\r') return c == U'\n';
  if (is_control(before)) return false;
  if (tables.properties.has(c, UnicodeProperties::kExtends)) return true;
  const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(before));
  return property->boundclass == UTF8PROC_BOUNDCLASS_PREPEND && !is_control(c);
}

std::int32_t characters_in(std::string_view text) {
  std::int32_t n = 0;
  for (const char c : text) n += (static_cast<std::uint8_t>(c) & 0xC0) != 0x80;
  return n;
}

// `to` stands for `from`: characters that are more are inserted, the last takes those away that are fewer.
void stand_for(std::string_view from, std::string_view to, std::vector<CharacterChange>& out) {
  const std::int32_t before = characters_in(from), after = characters_in(to);
  for (const char *p = to.data(), *end = p + to.size(); p < end;) {
    const CodePoint c = read_utf8(p, end);
    out.push_back({c.value, 0});
    p += c.length;
  }
  for (std::int32_t extra = after - before; extra > 0; --extra)
    out[out.size() - static_cast<std::size_t>(extra)].change = 1;
  if (after < before && !out.empty()) out.back().change += after - before;
}

}  // namespace

std::string decode_base64(std::string_view text, std::string_view where) {
  std::array<std::int8_t, 256> value{};
  value.fill(-1);
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < kDigits.size(); ++i)
    value[static_cast<std::uint8_t>(kDigits[i])] = static_cast<std::int8_t>(i);
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::int8_t digit = value[static_cast<std::uint8_t>(c)];
    require<DataError>(digit >= 0, "{} is not base64", where);
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<char>(bits >> held & 0xFF));
  }
  require<DataError>(text.size() % 4 != 1, "{} is not base64", where);
  return out;
}

Precompiled::Precompiled(std::string_view charsmap, Tables tables) : tables_(std::move(tables)) {
  std::uint32_t bytes = 0;
  require<DataError>(charsmap.size() >= 4, "precompiled_charsmap has {} bytes only", charsmap.size());
  std::memcpy(&bytes, charsmap.data(), 4);
  require<DataError>(bytes <= charsmap.size() - 4 && bytes >= 4,
                     "precompiled_charsmap names an array of {} bytes, but has {}", bytes,
                     charsmap.size() - 4);
  units_.resize(bytes / 4);
  std::memcpy(units_.data(), charsmap.data() + 4, units_.size() * 4);
  texts_ = charsmap.substr(4 + units_.size() * 4);
  require<DataError>(simdjson::validate_utf8(texts_), "the texts of precompiled_charsmap are not UTF-8");
}

std::optional<std::string_view> Precompiled::mapped(std::string_view text) const {
  // Darts-clone: label in the lowest byte and the highest bit, has_leaf in bit 8, offset in the rest.
  const auto offset = [](std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & 512u) >> 6);
  };
  std::size_t at = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte == 0) break;
    at ^= byte;
    if (at >= units_.size()) return std::nullopt;
    const std::uint32_t unit = units_[at];
    if ((unit & (1u << 31 | 0xFFu)) != byte) return std::nullopt;
    at ^= offset(unit);
    if (at >= units_.size()) return std::nullopt;
    if ((unit >> 8 & 1u) == 0) continue;
    const std::size_t begin = units_[at] & 0x7FFFFFFFu;
    if (begin > texts_.size()) return std::nullopt;
    const std::size_t end = std::min(texts_.find('\0', begin), texts_.size());
    return std::string_view(texts_).substr(begin, end - begin);
  }
  return std::nullopt;
}

void Precompiled::apply(AlignedText& text, RegexScratch&) const {
  std::vector<CharacterChange> changes;
  const std::string_view source = text.text();
  changes.reserve(source.size());
  bool any = false;
  const char *p = source.data(), *end = p + source.size();
  while (p < end) {
    const CodePoint first = read_utf8(p, end);
    const char* stop = p + first.length;
    // Longer graphemes are looked at character by character, wherever they end.
    for (char32_t before = first.value;
         stop < end && stop - p < static_cast<std::ptrdiff_t>(kShortGrapheme);) {
      const CodePoint next = read_utf8(stop, end);
      if (!joins(before, next.value, *tables_)) break;
      before = next.value;
      stop += next.length;
    }
    const std::string_view grapheme(p, static_cast<std::size_t>(stop - p));
    const auto whole = grapheme.size() < kShortGrapheme ? mapped(grapheme) : std::nullopt;
    if (whole) {
      any = true;
      stand_for(grapheme, *whole, changes);
    } else {
      for (const char* q = p; q < stop;) {
        const CodePoint c = read_utf8(q, stop);
        const std::string_view one(q, c.length);
        if (const auto to = mapped(one)) {
          any = true;
          stand_for(one, *to, changes);
        } else {
          changes.push_back({c.value, 0});
        }
        q += c.length;
      }
    }
    p = stop;
  }
  if (any) text.change(changes);
}

}  // namespace stoa::token
