#include "data/sentences.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace stoa::data {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

// Length in bytes of what ends a sentence at the start of `text`; 0: nothing. `wide`: no white space is
// needed after it.
std::size_t end_mark(std::string_view text, bool& wide) {
  wide = false;
  if (text.starts_with('.') || text.starts_with('!') || text.starts_with('?')) return 1;
  if (text.starts_with("\u2026")) return 3;
  for (const std::string_view mark : {"\u3002", "\uff01", "\uff1f", "\uff61"})
    if (text.starts_with(mark)) return wide = true, mark.size();
  return 0;
}

std::size_t closing_mark(std::string_view text) {
  static constexpr std::array<std::string_view, 13> kClosing{"\"",     "'",      ")",      "]",      "}",
                                                             "\u2019", "\u201d", "\u00bb", "\u203a", "\u300d",
                                                             "\u300f", "\uff09", "\u3011"};
  for (const std::string_view mark : kClosing)
    if (text.starts_with(mark)) return mark.size();
  return 0;
}

// Whether a full stop at `at` belongs to the word before it.
bool abbreviates(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && std::isalpha(static_cast<unsigned char>(text[begin - 1])) != 0) --begin;
  const std::string_view word = text.substr(begin, at - begin);
  if (word.size() == 1 && std::isupper(static_cast<unsigned char>(word[0])) != 0) return true;  // J. Smith
  static constexpr std::array<std::string_view, 22> kKnown{
      "Mr",  "Mrs", "Ms",  "Dr", "Prof", "St",  "Sr", "Jr",     "vs",  "etc", "e.g",
      "i.e", "Inc", "Ltd", "Co", "No",   "Fig", "al", "approx", "Gen", "Sen", "Rep"};
  if (std::find(kKnown.begin(), kKnown.end(), word) != kKnown.end()) return true;
  return at >= 3 && (text.substr(at - 3, 3) == "e.g" || text.substr(at - 3, 3) == "i.e");
}

}  // namespace

std::vector<std::string_view> split_sentences(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  const auto cut = [&](std::size_t end) {
    std::size_t from = begin, to = end;
    while (from < to && is_blank(text[from])) ++from;
    while (to > from && is_blank(text[to - 1])) --to;
    if (from < to) out.push_back(text.substr(from, to - from));
    begin = end;
  };
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      std::size_t next = at + 1;
      while (next < text.size() && is_blank(text[next]) && text[next] != '\n') ++next;
      if (next < text.size() && text[next] == '\n') cut(at);
      ++at;
      continue;
    }
    bool wide = false;
    const std::size_t mark = end_mark(text.substr(at), wide);
    if (mark == 0) {
      ++at;
      continue;
    }
    const bool short_form = text[at] == '.' && abbreviates(text, at);
    std::size_t end = at + mark;
    for (bool more = true; more && end < text.size();) {
      bool also_wide = false;
      std::size_t n = end_mark(text.substr(end), also_wide);
      wide = wide || also_wide;
      if (n == 0) n = closing_mark(text.substr(end));
      more = n > 0;
      end += n;
    }
    at = end;
    if (end == text.size()) break;
    if (!wide) {
      if (!is_blank(text[end]) || short_form) continue;
      std::size_t next = end;
      while (next < text.size() && is_blank(text[next])) ++next;
      if (next < text.size() && std::islower(static_cast<unsigned char>(text[next])) != 0) continue;
    }
    cut(end);
  }
  cut(text.size());
  return out;
}

}  // namespace stoa::data
