#include <algorithm>
#include <string_view>

#include "curate/filters/pii/finders.h"
#include "curate/filters/pii/look.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;
constexpr std::ptrdiff_t kMostQuestionMarks = 10'000;  // a text with more is not looked at

// [.\s@,?!;:)(]
bool is_around_email(Looked c) { return c.is(kSpace) || c.is_one_of(".@,?!;:)("); }

// What follows an @: [^\s@,?!;:)(]+?[.\s@,?!;:)(]?[\s\n\r]; its end, and that of the domain.
struct Domain {
  std::size_t name_end = 0, end = 0;
};
std::optional<Domain> email_domain_at(std::string_view text, std::size_t begin) {
  for (std::size_t at = begin; at < text.size();) {
    const Looked c = look(text, at);
    const bool around = is_around_email(c);
    if (at > begin && around) {
      const Looked next = look(text, at + c.length);
      if (next.is(kSpace)) return Domain{at, at + c.length + next.length};
      if (c.is(kSpace)) return Domain{at, at + c.length};
    }
    if (around && c.value != '.') return std::nullopt;
    at += c.length;
  }
  return std::nullopt;
}

// [.\s@,?!;:)(]*([^\s@]+@…): the first match in text[from…]; the name is the group without its domain.
struct Email {
  std::size_t begin = 0, name_begin = 0, at_sign = 0;
  Domain domain;
};
std::optional<Email> find_email_at(std::string_view text, std::size_t from) {
  std::size_t token_end = 0;  // where [^\s@]+ ends, from anywhere in the token that was looked at last
  bool has_token = false, token_refused = false;  // the @ at its end has no domain
  for (std::size_t at_sign = text.find('@', from); at_sign != kNowhere;) {
    // Characters that may stand before an address; it begins after as many of them as possible.
    std::size_t run_end = from;
    for (Looked c; is_around_email(c = look(text, run_end));) run_end += c.length;
    if (!has_token || run_end > token_end) {
      token_end = run_end;
      for (Looked c; (c = look(text, token_end)).length > 0 && c.value != '@' && !c.is(kSpace);)
        token_end += c.length;
      has_token = true;
      token_refused = false;
    }
    std::size_t name_end = token_end, tried = token_refused ? token_end : kNowhere;
    for (std::size_t s = run_end;;) {
      if (s < name_end && name_end != tried && look(text, name_end).value == '@') {
        if (const auto domain = email_domain_at(text, name_end + 1)) return Email{from, s, name_end, *domain};
        tried = name_end;
        token_refused |= name_end == token_end;
      }
      if (s == from) break;
      const Looked before = look_before(text, s);
      s -= before.length;
      if (before.value == '@' || before.is(kSpace)) name_end = s;
    }
    // A match that begins in between has its name in the same token.
    from = run_end;
    for (Looked c; (c = look(text, from)).length > 0 && !is_around_email(c);) from += c.length;
    if (from == text.size()) break;
    if (from > at_sign) at_sign = text.find('@', from);
  }
  return std::nullopt;
}

// Exactly `count` digits at `at`; their end, or npos.
std::size_t after_digits(std::string_view text, std::size_t at, int count) {
  for (int i = 0; i < count; ++i) {
    const Looked c = look(text, at);
    if (!c.is(kDigit)) return kNowhere;
    at += c.length;
  }
  return at;
}

// \s+\(?(\d{3})\)?[-\. ]*(\d{3})[-. ]?(\d{4}), after the white space; its end, or npos.
std::size_t phone_number_at(std::string_view text, std::size_t at) {
  const auto is_mark = [&](std::size_t i) {
    return i < text.size() && (text[i] == '-' || text[i] == '.' || text[i] == ' ');
  };
  at += text.substr(at).starts_with('(');
  at = after_digits(text, at, 3);
  if (at == kNowhere) return at;
  at += text.substr(at).starts_with(')');
  while (is_mark(at)) ++at;
  at = after_digits(text, at, 3);
  if (at == kNowhere) return at;
  at += is_mark(at);
  return after_digits(text, at, 4);
}

void add_paragraph(std::string_view text, std::size_t offset, std::vector<PiiMatch>& matches) {
  for (auto email = find_email_at(text, 0); email; email = find_email_at(text, email->domain.end)) {
    const std::string_view host =
        text.substr(email->at_sign + 1, email->domain.name_end - email->at_sign - 1);
    const std::string_view name = text.substr(email->name_begin, email->at_sign - email->name_begin);
    if (strip(name) == "(" || host.find('.') == host.npos) continue;
    matches.push_back({PiiKind::kEmail, offset + email->begin, offset + email->domain.end});
  }
  for (std::size_t at = 0; at < text.size();) {
    Looked c = look(text, at);
    if (!c.is(kSpace)) {
      at += c.length;
      continue;
    }
    const std::size_t begin = at;
    for (; c.is(kSpace); c = look(text, at)) at += c.length;
    if (const std::size_t end = phone_number_at(text, at); end != kNowhere) {
      matches.push_back({PiiKind::kPhone, offset + begin, offset + end});
      at = end;
    }
  }
  for (auto address = find_ipv4(text, 0); address; address = find_ipv4(text, address->end))
    matches.push_back({PiiKind::kIpv4, offset + address->begin, offset + address->end});
}

}  // namespace

std::vector<PiiMatch> find_dolma_pii(std::string_view text) {
  std::vector<PiiMatch> matches;
  if (std::count(text.begin(), text.end(), '?') > kMostQuestionMarks) return matches;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = text.find('\n', begin);
    const std::size_t end = newline == text.npos ? text.size() : newline + 1;
    const std::string_view paragraph = text.substr(begin, end - begin);
    if (!strip(paragraph).empty()) add_paragraph(paragraph, begin, matches);
    begin = end;
  }
  return matches;
}

}  // namespace stoa::curate
