#include "curate/text/english_rules.h"

#include <algorithm>
#include <string>

#include "curate/text/character.h"

namespace stoa::curate {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kEllipsis = "…";

std::uint32_t classes_before(const char* begin, const char* p) {
  return p > begin ? characters().classes(read_character_before(p)) : 0;
}
std::uint32_t classes_at(const char* p, const char* end) {
  return p < end ? characters().classes(read_character(p)) : 0;
}

}  // namespace

std::size_t english_prefix(std::string_view text) {
  const Character first = read_character(text.data());
  if (characters().has(first.value, kPrefix)) return first.length;
  switch (first.value) {
    case '+':
      return text.size() > 1 && is_ascii_digit(text[1]) ? 0 : 1;
    case '.': {
      const std::size_t dots = std::min(text.find_first_not_of('.'), text.size());
      return dots > 1 ? dots : 0;
    }
    case 'U':
      return text.starts_with("US$") ? 3 : 0;
    case 'C':
    case 'A':
      return text.size() > 1 && text[1] == '$' ? 2 : 0;
    default:
      return 0;
  }
}

std::size_t english_suffix(std::string_view text) {
  if (text.empty()) return 0;
  const char *const begin = text.data(), *const end = begin + text.size();
  const Character last = read_character_before(end);
  const std::uint32_t last_classes = characters().classes(last);
  std::size_t longest = (last_classes & kSuffix) ? last.length : 0;
  const auto offer = [&](std::size_t bytes) { longest = std::max(longest, bytes); };
  if (last.value == '.') {
    const char* p = end - 1;
    while (p > begin && p[-1] == '.') --p;
    if (end - p > 1) offer(static_cast<std::size_t>(end - p));
    const char* before = end - 1;
    const std::uint32_t classes = classes_before(begin, before);
    if (classes & kBeforeDot) offer(1);
    if (classes & kUpper && classes_before(begin, before - read_character_before(before).length) & kUpper)
      offer(1);
    if (before > begin && "FfCcKk"sv.find(before[-1]) != "FfCcKk"sv.npos &&
        text.substr(0, text.size() - 2).ends_with("°"))
      offer(1);
    return longest;
  }
  if (last.value == '+') return text.size() > 1 && is_ascii_digit(end[-2]) ? 1 : 0;
  if ((last.value == 's' || last.value == 'S') && text.size() > 1) {
    const std::string_view rest = text.substr(0, text.size() - 1);
    if (rest.back() == '\'') offer(2);
    if (rest.ends_with("’")) offer(4);
  }
  if (text.ends_with("……")) offer(2 * kEllipsis.size());
  const auto after_digit = [&](std::string_view ending) {
    if (text.size() > ending.size() && text.ends_with(ending) &&
        is_ascii_digit(end[-static_cast<std::ptrdiff_t>(ending.size()) - 1]))
      offer(ending.size());
  };
  // Units and currencies follow a digit: a text without one needs no comparison.
  if (std::any_of(begin, end, is_ascii_digit)) {
    for (const std::string_view unit : english_units()) after_digit(unit);
    for (const std::string_view currency : english_currencies()) after_digit(currency);
  }
  return longest;
}

void english_infixes(std::string_view text, std::vector<std::pair<std::uint32_t, std::uint32_t>>& found) {
  found.clear();
  const char *const begin = text.data(), *const end = begin + text.size();
  // A hyphen at `p` that stands before a letter: its bytes, else 0.
  const auto hyphen = [&](const char* p) -> std::size_t {
    for (const std::string_view h : {"-"sv, "–"sv, "—"sv, "--"sv, "---"sv, "——"sv, "~"sv})
      if (std::string_view(p, end).starts_with(h) && classes_at(p + h.size(), end) & kLetter) return h.size();
    return 0;
  };
  for (const char* p = begin; p < end;) {
    const Character c = read_character(p);
    std::size_t length = 0;
    if (c.value == '.') {
      const char* q = p;
      while (q < end && *q == '.') ++q;
      if (q - p > 1)
        length = static_cast<std::size_t>(q - p);
      else if (classes_before(begin, p) & (kLower | kQuote) && classes_at(q, end) & (kUpper | kQuote))
        length = 1;
    } else if (characters().has(c.value, kInfix)) {
      length = c.length;
    } else {
      const std::uint32_t before = classes_before(begin, p);
      const bool after_digit = p > begin && is_ascii_digit(p[-1]);
      switch (c.value) {
        case '+':
        case '-':
        case '*':
        case '^':
          if (after_digit && p + 1 < end && (is_ascii_digit(p[1]) || p[1] == '-')) {
            length = 1;
            break;
          }
          [[fallthrough]];
        case U'–':
        case U'—':
        case '~':
          if (before & kLetter || after_digit) length = hyphen(p);
          break;
        case ',':
          if (before & kLetter && classes_at(p + 1, end) & kLetter) length = 1;
          break;
        case ':':
        case '<':
        case '>':
        case '=':
        case '/':
          if ((before & kLetter || after_digit) && classes_at(p + 1, end) & kLetter) length = 1;
          break;
        default:
          break;
      }
    }
    if (length > 0) found.emplace_back(p - begin, p - begin + static_cast<std::ptrdiff_t>(length));
    p += std::max<std::size_t>(length, c.length);
  }
}

namespace {

bool is_host_character(char32_t c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         (c >= 0xa1 && c <= 0xffff);
}

// [C][C_-]{0,62}[C] or [C], C being a host character.
bool is_label(std::string_view text) {
  std::size_t count = 0;
  bool good = false;  // whether the last character may end a label
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const Character c = read_character(p);
    good = is_host_character(c.value);
    if (!good && (count == 0 || (c.value != '_' && c.value != '-'))) return false;
    if (++count > 64) return false;
    p += c.length;
  }
  return good;
}

bool is_top_level(std::string_view text) {
  std::size_t count = 0;
  for (const char *p = text.data(), *end = p + text.size(); p < end; ++count) {
    const Character c = read_character(p);
    if (!characters().has(c.value, kLower) || count == 63) return false;
    p += c.length;
  }
  return count >= 2;
}

// A part of a dotted address as numbers: 0 to 9 for decimal digits of any script, `ascii` for those of ASCII.
struct Octet {
  int count = 0;
  char32_t digits[3] = {};
};
bool read_octet(std::string_view text, Octet& octet) {
  octet = {};
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const Character c = read_character(p);
    if (octet.count == 3 || !characters().has(c.value, kDigit)) return false;
    octet.digits[octet.count++] = c.value;
    p += c.length;
  }
  return octet.count > 0;
}
bool in(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }
// 2[0-4]\d or 25[0-`last`]
bool is_two_hundred(const Octet& o, char32_t last) {
  return o.count == 3 && o.digits[0] == '2' &&
         (in(o.digits[1], '0', '4') || (o.digits[1] == '5' && in(o.digits[2], '0', last)));
}

// A public IPv4 address: none of a private or local network.
bool is_public_address(std::string_view host) {
  Octet octets[4];
  for (int i = 0; i < 4; ++i) {
    const std::size_t dot = i < 3 ? host.find('.') : host.size();
    if (dot == host.npos || !read_octet(host.substr(0, dot), octets[i])) return false;
    host.remove_prefix(std::min(dot + 1, host.size()));
  }
  const auto is = [&](int i, std::u32string_view digits) {
    return std::u32string_view(octets[i].digits, static_cast<std::size_t>(octets[i].count)) == digits;
  };
  if (is(0, U"10") || is(0, U"127") || (is(0, U"169") && is(1, U"254")) || (is(0, U"192") && is(1, U"168")))
    return false;
  const Octet &first = octets[0], &second = octets[1], &last = octets[3];
  if (is(0, U"172") && second.count == 2 &&
      ((second.digits[0] == '1' && in(second.digits[1], '6', '9')) || second.digits[0] == '2' ||
       (second.digits[0] == '3' && in(second.digits[1], '0', '1'))))
    return false;
  const bool one_or_two = in(first.digits[0], '1', '9') && first.count <= 2;
  const bool hundred = first.count == 3 &&
                       (first.digits[0] == '1' || (first.digits[0] == '2' && in(first.digits[1], '0', '1')) ||
                        (first.digits[0] == '2' && first.digits[1] == '2' && in(first.digits[2], '0', '3')));
  if (!one_or_two && !hundred) return false;
  for (const Octet* o : {&octets[1], &octets[2]})
    if (o->count == 3 && o->digits[0] != '1' && !is_two_hundred(*o, '5')) return false;
  return (in(last.digits[0], '1', '9') && last.count <= 2) || (last.count == 3 && last.digits[0] == '1') ||
         is_two_hundred(last, '4');
}

// A host name or address, then an optional port, then an optional path.
bool is_host_and_path(std::string_view text) {
  const std::size_t host_end = std::min(text.find_first_of(":/?#"), text.size());
  const std::string_view host = text.substr(0, host_end);
  const std::size_t dot = host.rfind('.');
  if (dot == host.npos) return false;
  bool good = is_top_level(host.substr(dot + 1));
  for (std::string_view labels = host.substr(0, dot + 1); good && !labels.empty();) {
    const std::size_t end = labels.find('.');
    good = is_label(labels.substr(0, end));
    labels.remove_prefix(end + 1);
  }
  if (!good && !is_public_address(host)) return false;
  std::string_view rest = text.substr(host_end);
  if (rest.starts_with(':')) {
    const char *p = rest.data() + 1, *end = rest.data() + rest.size();
    int digits = 0;
    for (; p < end && digits < 5; ++digits) {
      const Character c = read_character(p);
      if (!characters().has(c.value, kDigit)) break;
      p += c.length;
    }
    if (digits < 2) return false;
    rest = {p, end};
  }
  return rest.empty() || "/?#"sv.find(rest.front()) != "/?#"sv.npos;
}

}  // namespace

bool is_address(std::string_view text) {
  if (text.find('.') == text.npos) return false;
  // A user's name may stand before every @ but one at the beginning.
  const auto from = [](std::string_view rest) {
    if (is_host_and_path(rest)) return true;
    for (std::size_t at = rest.find('@', 1); at != rest.npos && at < rest.size(); at = rest.find('@', at + 1))
      if (is_host_and_path(rest.substr(at + 1))) return true;
    return false;
  };
  if (from(text)) return true;
  const std::size_t colon = text.find("://");
  if (colon == text.npos) return false;
  std::size_t count = 0;
  for (const char *p = text.data(), *end = p + colon; p < end; ++count) {
    const Character c = read_character(p);
    if (!characters().has(c.value, kWord) && c.value != '+' && c.value != '-' && c.value != '.') return false;
    p += c.length;
  }
  return count >= 2 && from(text.substr(colon + 3));
}

}  // namespace stoa::curate
