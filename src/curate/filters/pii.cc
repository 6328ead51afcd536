#include "curate/filters/pii.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <optional>

#include "curate/text/character.h"

namespace stoa::curate {
namespace {

using namespace std::string_view_literals;

struct Match {
  std::size_t begin = 0, end = 0;
};

bool is_number(char c) { return c >= '0' && c <= '9'; }
bool is_letter_or_number(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_number(c); }
bool is_atom(char c) {
  return is_letter_or_number(c) || "!#$%&'*+/=?^_`{|}~-"sv.find(c) != std::string_view::npos;
}

// Whether `at` is a boundary of a word, \b.
bool is_boundary(std::string_view text, std::size_t at) {
  const auto word_at = [&](std::size_t i) {
    return characters().has(read_character(text.data() + i).value, kWord);
  };
  const bool before = at > 0 && characters().has(read_character_before(text.data() + at).value, kWord);
  return before != (at < text.size() && word_at(at));
}

// 0 to 255 in one to three digits.
bool is_octet(std::string_view digits) {
  if (digits.empty() || digits.size() > 3 || !std::all_of(digits.begin(), digits.end(), is_number))
    return false;
  return digits.size() < 3 || digits <= "255";
}

// Digits at the beginning that make an octet, as the alternatives 25[0-5], 2[0-4][0-9], [01]?[0-9][0-9]? take
// them; 0: none.
std::size_t octet_at(std::string_view text) {
  std::size_t digits = 0;
  while (digits < 3 && digits < text.size() && is_number(text[digits])) ++digits;
  while (digits > 0 && !is_octet(text.substr(0, digits))) --digits;
  return digits;
}

// Three octets, each with a dot after it; bytes, or 0.
std::size_t three_octets_at(std::string_view text) {
  std::size_t at = 0;
  for (int i = 0; i < 3; ++i) {
    const std::size_t dot = text.substr(at, 4).find('.');
    if (dot == text.npos || !is_octet(text.substr(at, dot))) return 0;
    at += dot + 1;
  }
  return at;
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
    while (end < rest.size() && (is_letter_or_number(rest[end]) || rest[end] == '-')) ++end;
    return end > 0 && is_letter_or_number(rest[end - 1]) && rest.substr(end).starts_with(":]")
               ? 1 + octets + end + 2
               : 0;
  }
  std::size_t at = 0, labels = 0, end = 0;
  while (at < text.size() && is_letter_or_number(text[at])) {
    std::size_t run = at;
    while (run < text.size() && (is_letter_or_number(text[run]) || text[run] == '-')) ++run;
    std::size_t last = run;
    while (text[last - 1] == '-') --last;
    ++labels;
    end = last;
    if (last != run || run >= text.size() || text[run] != '.') break;
    at = run + 1;
  }
  return labels >= 2 ? end : 0;
}

std::optional<Match> find_email(std::string_view text, std::size_t from) {
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
      return Match{begin, at + 1 + domain};
  }
  return std::nullopt;
}

std::optional<Match> find_address(std::string_view text, std::size_t from) {
  for (std::size_t dot = text.find('.', from); dot != text.npos; dot = text.find('.', dot + 1)) {
    for (std::size_t length = std::min<std::size_t>(3, dot - from); length > 0;
         --length) {  // the leftmost beginning first
      const std::size_t begin = dot - length;
      if (!is_octet(text.substr(begin, length))) continue;
      const std::size_t octets = three_octets_at(text.substr(begin));
      if (octets == 0) break;
      const std::size_t last = octet_at(text.substr(begin + octets));
      if (last > 0) return Match{begin, begin + octets + last};
      break;
    }
  }
  return std::nullopt;
}

// As Python's ipaddress: False also for octets with leading zeros, which it refuses.
bool is_replaceable(std::string_view text, bool global_only) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const std::size_t end = std::min(text.find('.'), text.size());
    if (end > 1 && text[0] == '0') return false;
    std::uint32_t octet = 0;
    for (const char c : text.substr(0, end)) octet = 10 * octet + static_cast<std::uint32_t>(c - '0');
    value = value << 8 | octet;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!global_only) return true;
  struct Network {
    std::uint32_t address;
    int bits;
  };
  static constexpr Network kNotGlobal[] = {
      {0x00000000, 8},  {0x0a000000, 8},  {0x64400000, 10}, {0x7f000000, 8},  {0xa9fe0000, 16},
      {0xac100000, 12}, {0xc0000000, 29}, {0xc00000aa, 31}, {0xc0000200, 24}, {0xc0a80000, 16},
      {0xc6120000, 15}, {0xc6336400, 24}, {0xcb007100, 24}, {0xf0000000, 4}};
  return std::none_of(std::begin(kNotGlobal), std::end(kNotGlobal),
                      [&](const Network& n) { return (value ^ n.address) >> (32 - n.bits) == 0; });
}

const std::string& choose(const std::vector<std::string>& replacements, std::string_view found) {
  return replacements[XXH3_64bits(found.data(), found.size()) % replacements.size()];
}

template <class Find, class Replace>
bool replace_all(std::string_view text, std::string& out, Find&& find, Replace&& replace) {
  out.clear();
  std::size_t from = 0;
  bool changed = false;
  for (auto match = find(text, 0); match; match = find(text, match->end)) {
    const std::string_view found = text.substr(match->begin, match->end - match->begin);
    const std::string* with = replace(found);
    if (with == nullptr) continue;
    out += text.substr(from, match->begin - from);
    out += *with;
    from = match->end;
    changed = true;
  }
  if (changed) out += text.substr(from);
  return changed;
}

class PiiStage final : public Stage {
 public:
  explicit PiiStage(const PiiOptions& options) : options_(options) {}

  void apply(Document& document, Features& features, Verdict&) const override {
    std::string changed;
    bool any = false;
    if (options_.remove_emails &&
        replace_all(document.text, changed, find_email,
                    [&](std::string_view found) { return &choose(options_.email_replacement, found); })) {
      document.text.swap(changed);
      any = true;
    }
    if (options_.remove_ips && replace_all(document.text, changed, find_address, [&](std::string_view found) {
          return is_replaceable(found, options_.only_remove_public_ips)
                     ? &choose(options_.ip_replacement, found)
                     : nullptr;
        })) {
      document.text.swap(changed);
      any = true;
    }
    if (any) features.reset(document.text);
  }

 private:
  const PiiOptions options_;
};

}  // namespace

void declare(config::Section<PiiOptions>& s) {
  s.field("remove_emails", &PiiOptions::remove_emails).help("Replace e-mail addresses.");
  s.field("remove_ips", &PiiOptions::remove_ips).help("Replace IPv4 addresses.");
  s.field("only_remove_public_ips", &PiiOptions::only_remove_public_ips)
      .help("Leave addresses of private and reserved networks.");
  s.field("email_replacement", &PiiOptions::email_replacement)
      .not_empty()
      .help("What e-mail addresses become: the same address always the same.");
  s.field("ip_replacement", &PiiOptions::ip_replacement).not_empty().help("What IPv4 addresses become.");
}

std::unique_ptr<Stage> make_stage(const PiiOptions& options) { return std::make_unique<PiiStage>(options); }

}  // namespace stoa::curate
