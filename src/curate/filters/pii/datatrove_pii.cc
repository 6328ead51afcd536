#include <string_view>

#include "curate/filters/pii/finders.h"
#include "curate/filters/pii/look.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

using namespace std::string_view_literals;

bool is_atom(char c) {
  return is_ascii_alphanumeric(c) || "!#$%&'*+/=?^_`{|}~-"sv.find(c) != std::string_view::npos;
}

// Whether `at` is a boundary of a word, \b.
bool is_boundary(std::string_view text, std::size_t at) {
  return (at > 0 && look_before(text, at).is(kWord)) != look(text, at).is(kWord);
}

// The domain or bracketed address after an @; bytes, or 0.
std::size_t domain_at(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t octets = three_octets_at(text.substr(1));
    if (octets == 0) return 0;
    const std::string_view rest = text.substr(1 + octets);
    const std::size_t digits = octet_at(rest);
    if (digits > 0 && rest.substr(digits).starts_with(']')) return 1 + octets + digits + 1;
    std::size_t end = 0;
    while (end < rest.size() && (is_ascii_alphanumeric(rest[end]) || rest[end] == '-')) ++end;
    return end > 0 && is_ascii_alphanumeric(rest[end - 1]) && rest.substr(end).starts_with(":]")
               ? 1 + octets + end + 2
               : 0;
  }
  std::size_t at = 0, labels = 0, end = 0;
  while (at < text.size() && is_ascii_alphanumeric(text[at])) {
    std::size_t run = at;
    while (run < text.size() && (is_ascii_alphanumeric(text[run]) || text[run] == '-')) ++run;
    std::size_t last = run;
    while (text[last - 1] == '-') --last;
    ++labels;
    end = last;
    if (last != run || run >= text.size() || text[run] != '.') break;
    at = run + 1;
  }
  return labels >= 2 ? end : 0;
}

}  // namespace

std::optional<ByteRange> find_datatrove_email(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find('@', from); at != text.npos; at = text.find('@', at + 1)) {
    std::size_t begin = text.npos;
    for (std::size_t s = at; s > from;) {
      --s;
      if (is_atom(text[s])) {
        if (is_boundary(text, s)) begin = s;
      } else if (text[s] != '.' || s + 1 == at || text[s + 1] == '.') {
        break;
      }
    }
    if (begin == text.npos) continue;
    if (const std::size_t domain = domain_at(text.substr(at + 1)); domain > 0)
      return ByteRange{begin, at + 1 + domain};
  }
  return std::nullopt;
}

}  // namespace stoa::curate
