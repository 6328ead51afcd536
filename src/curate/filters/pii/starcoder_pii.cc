#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "curate/filters/pii/finders.h"
#include "curate/filters/pii/look.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
constexpr int kMostLabels = 10;
constexpr std::size_t kLongestInside = 62, kLongestTopLevel = 63;  // of a label, of a top level domain

// \s of Python's regex, which does not take the separators of ASCII for white space.
bool is_regex_space(Looked c) { return c.is(kSpace) && (c.value < 0x1c || c.value > 0x1f); }

bool is_line_begin(std::string_view text, std::size_t at) { return at == 0 || text[at - 1] == '\n'; }
bool is_line_end(std::string_view text, std::size_t at) { return at == text.size() || text[at] == '\n'; }

// ^ | [[({<\b\s@,?!;'"\p{Han}¿¡:.] before `at`.
bool may_begin_email(std::string_view text, std::size_t at) {
  if (is_line_begin(text, at)) return true;
  const Looked c = look_before(text, at);
  return c.is_one_of("[({<\b@,?!;'\":.") || is_regex_space(c) || c.is(kHan) || c.value == 0xbf ||
         c.value == 0xa1;
}
// $ | [])}>\b\s@,?!;'"\p{Han}] | \\['"] | : (?! \d) | \. (?! \S) at `at`.
bool may_end_email(std::string_view text, std::size_t at) {
  if (is_line_end(text, at)) return true;
  const Looked c = look(text, at), next = look(text, at + c.length);
  if (c.value == '\\') return next.is_one_of("'\"");
  if (c.value == ':') return !next.is(kDecimal);
  if (c.value == '.') return next.length == 0 || is_regex_space(next);
  return c.is_one_of("])}>\b@,?!;'\"") || is_regex_space(c) || c.is(kHan);
}
// [^][(){}<>\b\s@,?!;'":#/\\=.\-] | [=.\-] (?! [.@]) at `at`.
bool is_local(std::string_view text, std::size_t at) {
  const Looked c = look(text, at);
  if (c.is_one_of("=.-")) return !look(text, at + 1).is_one_of(".@");
  return c.length > 0 && !c.is_one_of("][(){}<>\b@,?!;'\":#/\\") && !is_regex_space(c);
}

// A label of a domain and its dot at `at`; where they end, or npos.
std::size_t after_label(std::string_view text, std::size_t at) {
  const auto is_inside = [](Looked c) {
    return c.length > 0 && !c.is_one_of(".\b@?!;,/()>") && !is_regex_space(c);
  };
  const Looked first = look(text, at);
  if (first.is(kRegexWord) && look(text, at + first.length).value == '.') return at + first.length + 1;
  if (!is_inside(first) || first.is_one_of("-:")) return kNone;
  std::size_t characters = 1;
  Looked last;
  for (at += first.length; is_inside(look(text, at)) && characters <= kLongestInside + 1; ++characters) {
    last = look(text, at);
    at += last.length;
  }
  const bool ended = look(text, at).value == '.';
  return ended && characters >= 2 && !last.is_one_of("-:'\"") ? at + 1 : kNone;
}

// A top level domain at `at` with what may follow an address; its end, or npos.
std::size_t after_top_level(std::string_view text, std::size_t at) {
  std::size_t end = at, letters = 0;
  for (Looked c; letters < kLongestTopLevel && (c = look(text, end)).is(kLetterOrMark); ++letters)
    end += c.length;
  for (; letters >= 2; --letters) {
    if (may_end_email(text, end)) return end;
    end -= look_before(text, end).length;
  }
  if (!text.substr(at).starts_with("xn--")) return kNone;
  const std::size_t begin = end = at + 4;
  for (Looked c; (c = look(text, end)).is(kRegexWord);) end += c.length;
  for (; end > begin; end -= look_before(text, end).length)
    if (may_end_email(text, end)) return end;
  return kNone;
}

std::size_t after_email_domain(std::string_view text, std::size_t at) {
  std::array<std::size_t, kMostLabels> ends{};
  int labels = 0;
  for (; labels < kMostLabels && (at = after_label(text, at)) != kNone; ++labels)
    ends[static_cast<std::size_t>(labels)] = at;
  while (labels > 0)
    if (const std::size_t end = after_top_level(text, ends[static_cast<std::size_t>(--labels)]); end != kNone)
      return end;
  return kNone;
}

void add_emails(std::string_view text, std::vector<PiiMatch>& matches) {
  std::size_t from = 0;
  for (std::size_t at = text.find('@'); at != kNone; at = text.find('@', at + 1)) {
    std::size_t begin = kNone;  // the first place before the @ where an address may begin
    for (std::size_t s = at; s > from;) {
      s -= look_before(text, s).length;
      if (!is_local(text, s)) break;
      if (may_begin_email(text, s)) begin = s;
    }
    if (begin == kNone) continue;
    const std::size_t end = after_email_domain(text, at + 1);
    if (end == kNone) continue;
    matches.push_back({PiiKind::kEmail, begin, end});
    from = end;
    at = end - 1;
  }
}

// ------------------------------------------------------------------------------------------- IP addresses

bool may_begin_ip(Looked c) { return c.is_one_of("\b@?,!;:'\")(.") || is_regex_space(c) || c.is(kHan); }
bool may_end_ip(std::string_view text, std::size_t at) {
  if (is_line_end(text, at)) return true;
  const Looked c = look(text, at);
  return c.is_one_of("@,?!;:'\"(.") || is_regex_space(c) || c.is(kHan);
}

// Octets as the patterns of IPv6 take them: 0 to 99 with or without a zero before it, 100 to 255.
std::size_t strict_octet_at(std::string_view text) {
  std::size_t digits = octet_at(text);
  if (digits == 3 && text[0] == '0') digits = 2;
  return digits;
}
// Four of them with dots, and then what may follow an address; bytes, or npos.
std::size_t after_strict_ipv4(std::string_view text, std::size_t at) {
  for (int i = 0; i < 4; ++i) {
    if (i > 0) {
      if (look(text, at).value != '.') return kNone;
      ++at;
    }
    const std::size_t digits = strict_octet_at(text.substr(at));
    if (digits == 0) return kNone;
    at += digits;
  }
  return may_end_ip(text, at) ? at : kNone;
}

// The pieces of which the patterns of IPv6 addresses are made: [0-9a-fA-F]{1,4} with a colon after it, before
// it, or none; and a colon alone.
enum class Ipv6Piece : std::uint8_t { kGroupColon, kColonGroup, kGroup, kColon };
struct Ipv6Part {
  Ipv6Piece piece;
  int least, most;
};

std::size_t after_piece(std::string_view text, std::size_t at, Ipv6Piece piece) {
  const auto colon = [&] {
    if (at >= text.size() || text[at] != ':') return false;
    ++at;
    return true;
  };
  const auto group = [&] {
    const std::size_t end = std::min(text.find_first_not_of(kHexDigits, at), text.size());
    const bool fits = end > at && end - at <= 4;  // no mark that may follow is a digit
    at = end;
    return fits;
  };
  const bool found = piece == Ipv6Piece::kGroupColon   ? group() && colon()
                     : piece == Ipv6Piece::kColonGroup ? colon() && group()
                     : piece == Ipv6Piece::kGroup      ? group()
                                                       : colon();
  return found ? at : kNone;
}

// As many pieces as possible first, as the patterns do. `then`: where the last part ends, its end, or npos.
template <class Then>
std::size_t after_parts(std::string_view text, std::size_t at, std::span<const Ipv6Part> parts,
                        const Then& then) {
  if (parts.empty()) return then(at);
  const Ipv6Part part = parts.front();
  std::array<std::size_t, 9> ends{at};
  int count = 0;
  while (count < part.most && (at = after_piece(text, at, part.piece)) != kNone)
    ends[static_cast<std::size_t>(++count)] = at;
  for (; count >= part.least; --count)
    if (const std::size_t end =
            after_parts(text, ends[static_cast<std::size_t>(count)], parts.subspan(1), then);
        end != kNone)
      return end;
  return kNone;
}

// The end of the first alternative of the pattern that fits at `at`; npos: none.
std::size_t after_ipv6(std::string_view text, std::size_t at) {
  using enum Ipv6Piece;
  static constexpr Ipv6Part kAlternatives[][2] = {
      {{kGroupColon, 7, 7}, {kGroup, 1, 1}},      {{kGroupColon, 1, 7}, {kColon, 1, 1}},
      {{kGroupColon, 1, 6}, {kColonGroup, 1, 1}}, {{kGroupColon, 1, 5}, {kColonGroup, 1, 2}},
      {{kGroupColon, 1, 4}, {kColonGroup, 1, 3}}, {{kGroupColon, 1, 3}, {kColonGroup, 1, 4}},
      {{kGroupColon, 1, 2}, {kColonGroup, 1, 5}}, {{kGroupColon, 1, 1}, {kColonGroup, 1, 6}},
      {{kColon, 1, 1}, {kColonGroup, 1, 7}},      {{kColon, 1, 1}, {kColon, 1, 1}}};
  const auto ended = [&](std::size_t end) { return may_end_ip(text, end) ? end : kNone; };
  for (const auto& parts : kAlternatives)
    if (const std::size_t end = after_parts(text, at, parts, ended); end != kNone) return end;
  if (text.substr(at).starts_with("fe80:")) {  // fe80:(:hex{0,4}){0,4}%[0-9a-zA-Z]+
    std::size_t end = at + 5;
    for (int i = 0; i < 4 && end < text.size() && text[end] == ':'; ++i) {
      ++end;
      for (int digits = 0; digits < 4 && end < text.size() && kHexDigits.find(text[end]) != kNone; ++digits)
        ++end;
    }
    if (end + 1 < text.size() && text[end] == '%' && is_ascii_alphanumeric(text[end + 1])) {
      for (++end; end < text.size() && is_ascii_alphanumeric(text[end]);) ++end;
      if (may_end_ip(text, end)) return end;
    }
  }
  if (text.substr(at).starts_with("::")) {  // ::(ffff(:0{1,4})?:)?IPv4
    const std::string_view rest = text.substr(at + 2);
    if (rest.starts_with("ffff:")) {
      std::size_t zeros = 0;
      while (zeros < 4 && rest.substr(5 + zeros).starts_with('0')) ++zeros;
      if (zeros > 0 && rest.substr(5 + zeros).starts_with(':'))
        if (const std::size_t end = after_strict_ipv4(text, at + 2 + 5 + zeros + 1); end != kNone) return end;
      if (const std::size_t end = after_strict_ipv4(text, at + 2 + 5); end != kNone) return end;
    }
    if (const std::size_t end = after_strict_ipv4(text, at + 2); end != kNone) return end;
  }
  static constexpr Ipv6Part kMixed[] = {{kGroupColon, 1, 4}, {kColon, 1, 1}};
  return after_parts(text, at, kMixed, [&](std::size_t end) { return after_strict_ipv4(text, end); });
}

// (octet)(\.octet){3}, and then what may follow an address.
std::size_t after_ipv4(std::string_view text, std::size_t at) {
  const std::size_t octets = three_octets_at(text.substr(at));
  if (octets == 0) return kNone;
  const std::size_t last = octet_at(text.substr(at + octets));
  return last > 0 && may_end_ip(text, at + octets + last) ? at + octets + last : kNone;
}

// dd.dd.dd. at the beginning, each as days, months and years may be.
bool is_date(std::string_view value) {
  const auto is_pair = [&](std::size_t at, char most) {
    return value[at] >= '0' && value[at] <= most && is_ascii_digit(value[at + 1]) && value[at + 2] == '.';
  };
  return value.size() > 9 && is_pair(0, '3') && is_pair(3, '3') && is_pair(6, '9');
}

// Whether an address of seven characters is a version: no "dns" or "server" within 100 characters. Near the
// beginning of a text the tool counts from its end, and mostly sees nothing.
bool is_version(std::string_view text, std::size_t begin, std::size_t end) {
  constexpr std::size_t kContext = 100;
  std::size_t from = begin, before = 0;  // characters
  for (; before < kContext && from > 0; ++before) from -= look_before(text, from).length;
  if (before < kContext) {
    from = text.size();
    for (std::size_t i = before; i < kContext && from > 0; ++i) from -= look_before(text, from).length;
  }
  std::size_t to = end;
  for (std::size_t i = 0; i < kContext && to < text.size(); ++i) to += look(text, to).length;
  if (from >= to) return true;
  std::string context(text.substr(from, to - from));
  for (char& c : context)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return context.find("dns") == kNone && context.find("server") == kNone;
}

void add_address(std::string_view text, std::size_t begin, std::size_t end, std::vector<PiiMatch>& matches) {
  const std::string_view value = text.substr(begin, end - begin);
  if (std::none_of(value.begin(), value.end(), is_ascii_digit) || is_date(value)) return;
  if (value.size() == 7 && std::count(value.begin(), value.end(), '.') == 3 && is_version(text, begin, end))
    return;
  if (parse_ipv4(value))
    matches.push_back({PiiKind::kIpv4, begin, end});
  else if (parse_ipv6(value))
    matches.push_back({PiiKind::kIpv6, begin, end});
}

// (?:^|[marks])(address)(?:$|[marks]): the marks are part of a match, so two addresses share none.
void add_addresses(std::string_view text, std::vector<PiiMatch>& matches) {
  const auto after_any = [&](std::size_t at) {
    const std::size_t end = after_ipv4(text, at);
    return end != kNone ? end : after_ipv6(text, at);
  };
  const auto may_be = [&](std::size_t at) {
    return at < text.size() && (text[at] == ':' || kHexDigits.find(text[at]) != kNone);
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t begin = at, end = is_line_begin(text, at) && may_be(at) ? after_any(at) : kNone;
    const Looked mark = look(text, at);
    const std::size_t after = at + mark.length;
    if (end == kNone && may_be(after) && may_begin_ip(mark)) {
      begin = after;
      end = after_any(after);
    }
    if (end == kNone) {
      at = after;
      continue;
    }
    add_address(text, begin, end, matches);
    at = is_line_end(text, end) ? end : end + look(text, end).length;
  }
}

}  // namespace

std::vector<PiiMatch> find_starcoder_pii(std::string_view text) {
  std::vector<PiiMatch> matches;
  add_emails(text, matches);
  add_addresses(text, matches);
  return matches;
}

}  // namespace stoa::curate
