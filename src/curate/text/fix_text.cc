#include "curate/text/fix_text.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "curate/html/entities.h"
#include "curate/text/canonical_form.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kLongestReference = 24;

struct WidthsAndLigatures {
  token::CodePointMap ligatures{ligature_mapping()}, widths{width_mapping()};
};
const WidthsAndLigatures& widths_and_ligatures() {
  static const WidthsAndLigatures maps;
  return maps;
}

bool is_alphanumeric(char32_t c) { return c < 0x80 && is_ascii_alphanumeric(static_cast<char>(c)); }

// What &#…; stands for; nullopt: nothing. Numbers that stand for no character stand for an empty text.
// `digits`: not empty.
std::optional<std::u32string> numbered(std::string_view digits) {
  char32_t value = 0;
  if (read_reference_number(digits, value) != digits.size()) return std::nullopt;
  if (value == ';') return std::nullopt;
  if (value >= 0x80 && value < 0xa0) return std::u32string(1, windows_1252(value));
  if (value == 0 || value >= 0x110000 || (value >= 0xd800 && value < 0xe000)) return U"\ufffd";
  const bool control = value < 0x20 && value != '\t' && value != '\n' && value != '\f' && value != '\r';
  const bool no_character = (value & 0xfffe) == 0xfffe || (value >= 0xfdd0 && value < 0xfdf0);
  if (control || value == 0x7f || no_character) return std::u32string();
  return std::u32string(1, value);
}

// `name` with its semicolon.
std::optional<std::string_view> named(std::string_view name) {
  for (const EntityNames names : {entity_names(), shouted_entity_names()})
    if (const auto found = find_entity(names, name)) return found;
  return std::nullopt;
}

void replace_through(const token::CodePointMap& map, std::u32string& text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text) map.apply(c, [&](char32_t to) { out += to; });
  text.swap(out);
}

void straighten_quotes(std::u32string& text) {
  for (char32_t& c : text) {
    if (c == 0x2bc || (c >= 0x2018 && c <= 0x201b)) c = '\'';
    if (c >= 0x201c && c <= 0x201f) c = '"';
  }
}

void make_line_ends_plain(std::u32string& text) {
  std::size_t to = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char32_t c = text[i];
    if (c == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    if (c == '\r' || c == 0x2028 || c == 0x2029 || c == 0x85) c = '\n';
    text[to++] = c;
  }
  text.resize(to);
}

// ESC [ numbers between semicolons, letter.
void remove_escapes(std::u32string& text) {
  std::size_t to = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == 0x1b && i + 1 < text.size() && text[i + 1] == '[') {
      std::size_t end = i + 2;
      while (end < text.size() && (text[end] == ';' || characters().has(text[end], kDigit))) ++end;
      if (end < text.size() && text[end] < 0x80 && is_ascii_letter(static_cast<char>(text[end]))) {
        i = end;
        continue;
      }
    }
    text[to++] = text[i];
  }
  text.resize(to);
}

bool is_removed(char32_t c) {
  return c < 0x09 || c == 0x0b || (c >= 0x0e && c < 0x20) || c == 0x7f || (c >= 0x206a && c <= 0x206f) ||
         c == 0xfeff || (c >= 0xfff9 && c <= 0xfffc);
}

class Repair {
 public:
  Repair(const FixTextOptions& options, std::string& out)
      : options_(options), unescape_(options.unescape_html != UnescapeHtml::kNever), out_(out) {}

  void segment(std::string_view text) {
    if (options_.unescape_html == UnescapeHtml::kUntilMarkup && unescape_ && text.find('<') != text.npos)
      unescape_ = false;
    if (is_plain_ascii(text)) {
      out_ += text;
      return;
    }
    text_.clear();
    append_decoded(text, text_);
    if (!is_touched()) {
      out_ += text;
      return;
    }
    do {
      before_ = text_;
      once();
    } while (text_ != before_);
    for (const char32_t c : text_) append_utf8(c, out_);
  }

 private:
  // Printable ASCII, tabs, line feeds and form feeds, and no reference.
  bool is_plain_ascii(std::string_view text) const {
    unsigned char other = 0;
    for (const char each : text) {
      const auto c = static_cast<unsigned char>(each);
      other |= static_cast<unsigned char>(c >= 0x7f || (c < 0x20 && c != '\t' && c != '\n' && c != '\f'));
    }
    return other == 0 && !(unescape_ && text.find('&') != text.npos);
  }
  bool is_touched() const {
    std::uint32_t all = 0;
    bool reference = false;
    for (const char32_t c : text_) {
      all |= mojibake().classes(c);
      reference = reference || c == '&';
    }
    return (all & (kReplaced | kMayChangeInNfc)) != 0 || (unescape_ && reference) ||
           (options_.fix_encoding && mojibake().is_bad(text_));
  }
  void once() {
    if (unescape_) unescape_references(text_);
    if (options_.fix_encoding) mojibake().fix(text_, options_.mojibake);
    if (options_.mojibake.fix_c1_controls)
      for (char32_t& c : text_)
        if (c >= 0x80 && c < 0xa0) c = windows_1252(c);
    if (options_.fix_latin_ligatures) replace_through(widths_and_ligatures().ligatures, text_);
    if (options_.fix_character_width) replace_through(widths_and_ligatures().widths, text_);
    if (options_.uncurl_quotes) straighten_quotes(text_);
    if (options_.fix_line_breaks) make_line_ends_plain(text_);
    if (options_.remove_terminal_escapes) remove_escapes(text_);
    if (options_.remove_control_chars) std::erase_if(text_, is_removed);
    if (options_.normalization == Normalization::kNfc &&
        std::any_of(text_.begin(), text_.end(),
                    [](char32_t c) { return (mojibake().classes(c) & kMayChangeInNfc) != 0; }))
      canonical_form().compose(text_);
  }

  const FixTextOptions& options_;
  bool unescape_;
  std::string& out_;
  std::u32string text_, before_;
};

// Bytes of the first `most` characters.
std::size_t bytes_of_first(std::string_view text, std::size_t most) {
  std::size_t at = 0;
  for (std::size_t n = 0; n < most && at < text.size(); ++n) at += read_character(text.data() + at).length;
  return at;
}

}  // namespace

void unescape_references(std::u32string& text) {
  if (text.find(U'&') == text.npos) return;
  std::u32string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    if (text[i++] == '&') {
      const bool number = i < text.size() && text[i] == '#';
      if (number) ++i;
      std::string name;
      while (i < text.size() && name.size() <= kLongestReference && is_alphanumeric(text[i]))
        name += static_cast<char>(text[i++]);
      if (!name.empty() && name.size() <= kLongestReference && i < text.size() && text[i] == ';') {
        ++i;
        if (number) {
          if (const auto found = numbered(name)) {
            out += *found;
            continue;
          }
        } else if (const auto found = named(name + ";")) {
          append_decoded(*found, out);
          continue;
        }
      }
    }
    out.append(text, begin, i - begin);
  }
  text.swap(out);
}

void fix_text(std::string_view text, const FixTextOptions& options, std::string& out) {
  Repair repair(options, out);
  const auto most = static_cast<std::size_t>(options.max_decode_length);
  while (!text.empty()) {
    std::size_t bytes = std::min(text.find('\n'), text.size() - 1) + 1;
    if (bytes > most) bytes = bytes_of_first(text.substr(0, bytes), most);
    repair.segment(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
}

}  // namespace stoa::curate
