#include "curate/text/character.h"

#include "base/utf8.h"

namespace stoa::curate {
namespace {

constexpr char32_t kSigma = 0x3a3, kSmallSigma = 0x3c3, kFinalSigma = 0x3c2;

// Whether the sigma at [at, at + 2) ends a word: after a cased letter, and before none.
bool is_final_sigma(std::string_view text, std::size_t at) {
  const Characters& table = characters();
  const char *begin = text.data(), *end = begin + text.size();
  const char* p = begin + at;
  bool cased = false;
  while (p > begin) {
    const Character c = read_character_before(p);
    p -= c.length;
    const std::uint32_t classes = table.classes(c);
    if (classes & kCaseIgnorable) continue;
    cased = (classes & kCased) != 0;
    break;
  }
  if (!cased) return false;
  for (p = begin + at + 2; p < end;) {
    const Character c = read_character(p);
    p += c.length;
    const std::uint32_t classes = table.classes(c);
    if (classes & kCaseIgnorable) continue;
    return (classes & kCased) == 0;
  }
  return true;
}

}  // namespace

Characters::Characters()
    : table_(character_class_bits(), character_class_runs()),
      lower_(lower_mapping()),
      stripped_(stripped_mapping()) {}

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower_ascii(c);
  return out;
}

const Characters& characters() {
  static const Characters table;
  return table;
}

std::size_t count_characters(std::string_view text) {
  std::size_t continued = 0;
  for (const char c : text) continued += static_cast<signed char>(c) < -64;  // 10xxxxxx
  return text.size() - continued;
}

std::string_view strip_left(std::string_view text) {
  while (const std::size_t n = leading_white_space(text)) text.remove_prefix(n);
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (const std::size_t n = trailing_white_space(text)) text.remove_suffix(n);
  return text;
}

void append_lower(std::string_view text, std::string& out) {
  const Characters& table = characters();
  const char *const begin = text.data(), *const end = begin + text.size();
  for (const char* p = begin; p < end;) {
    const char* run = p;
    while (run < end && static_cast<signed char>(*run) >= 0) ++run;
    if (run > p) {
      const std::size_t at = out.size(), bytes = static_cast<std::size_t>(run - p);
      out.resize(at + bytes);
      char* to = out.data() + at;
      for (std::size_t i = 0; i < bytes; ++i)
        to[i] = static_cast<char>(p[i] + (p[i] >= 'A' && p[i] <= 'Z' ? 32 : 0));
      p = run;
      continue;
    }
    const Character c = read_character(p);
    if (c.value == kSigma)
      append_utf8(is_final_sigma(text, static_cast<std::size_t>(p - begin)) ? kFinalSigma : kSmallSigma, out);
    else
      table.lower().apply(c.value, [&](char32_t to) { append_utf8(to, out); });
    p += c.length;
  }
}

}  // namespace stoa::curate
