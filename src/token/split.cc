#include "token/split.h"

namespace stoa::token {
namespace {

constexpr std::string_view kGpt2Regex =
    R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kLlama3Regex =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kQwen2Regex =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
// Possessive repetitions have no effect in this pattern; `$` is the end of the text.
constexpr std::string_view kCl100kRegex =
    R"re('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)re";
// A class within a class: white space, ( | ) and the inner list are all excluded.
constexpr std::string_view kBloomRegex = R"re( ?[^(\s|[.,!?…。，、।۔،])]+)re";
constexpr SplitPattern kPatterns[] = {SplitPattern::kNone,  SplitPattern::kGpt2,  SplitPattern::kLlama3,
                                      SplitPattern::kQwen2, SplitPattern::kBloom, SplitPattern::kCl100k};

constexpr std::u32string_view kBloomPunctuation = U"(|).,!?…。，、।۔،";

bool is_space(CharClass c) { return c == CharClass::kSpace || c == CharClass::kNewline; }

// Length of 's 't 're 've 'm 'll 'd at p (which points at the apostrophe), 0 when there is none.
std::size_t contraction(const char* p, const char* end, bool any_case) {
  const auto letter = [&](std::ptrdiff_t i) -> char {
    if (end - p <= i) return 0;
    const char c = p[i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    // U+017F, the long s, is the only other character that case-folds to one of these letters.
    case '\xC5':
      return any_case && letter(2) == '\xBF' ? 3 : 0;
    default:
      return 0;
  }
}

}  // namespace

std::string_view name(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::kNone:
      return "none";
    case SplitPattern::kGpt2:
      return "gpt2";
    case SplitPattern::kLlama3:
      return "llama3";
    case SplitPattern::kQwen2:
      return "qwen2";
    case SplitPattern::kBloom:
      return "bloom";
    case SplitPattern::kCl100k:
      return "cl100k";
    case SplitPattern::kOther:
      return "other";
  }
  return "";
}

std::string_view regex(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::kNone:
    case SplitPattern::kOther:
      return "";
    case SplitPattern::kGpt2:
      return kGpt2Regex;
    case SplitPattern::kLlama3:
      return kLlama3Regex;
    case SplitPattern::kQwen2:
      return kQwen2Regex;
    case SplitPattern::kBloom:
      return kBloomRegex;
    case SplitPattern::kCl100k:
      return kCl100kRegex;
  }
  return "";
}

std::optional<SplitPattern> split_pattern_named(std::string_view given) {
  for (const SplitPattern p : kPatterns) {
    if (name(p) == given) return p;
  }
  return std::nullopt;
}

std::optional<SplitPattern> split_pattern_of_regex(std::string_view given) {
  for (const SplitPattern p : kPatterns) {
    if (!given.empty() && regex(p) == given) return p;
  }
  return std::nullopt;
}

Splitter::Splitter(SplitPattern pattern) : pattern_(pattern) {
  for (char32_t c = 0; c < 128; ++c) ascii_[c] = classes_.char_class(c);
}

// \s+(?!\S)|\s+ at a space: the whole run if it is at the end of the text or a single character, else all but
// its last character. With `cut_at_newlines`, \s*[\r\n]+ is tried first: the run up to its last newline. With
// `whole_end`, \s+ at the end of the text is tried before that.
std::size_t Splitter::spaces(const char* p, const char* end, bool cut_at_newlines, bool whole_end) const {
  const char *q = p, *last = p, *newline = nullptr;
  while (q < end) {
    const Step s = step(q, end);
    if (!is_space(s.kind)) break;
    last = q;
    q += s.length;
    if (s.kind == CharClass::kNewline) newline = q;
  }
  if (whole_end && q == end) return static_cast<std::size_t>(q - p);
  if (cut_at_newlines && newline != nullptr) return static_cast<std::size_t>(newline - p);
  return static_cast<std::size_t>((q == end || last == p ? q : last) - p);
}

std::size_t Splitter::next_gpt2(const char* p, const char* end) const {
  if (*p == '\'') {
    if (const std::size_t n = contraction(p, end, false)) return n;
  }
  const char* q = p;
  Step s = step(q, end);
  if (*p == ' ' && p + 1 < end) {
    const Step after = step(p + 1, end);
    if (!is_space(after.kind)) {
      q = p + 1;
      s = after;
    }
  }
  if (is_space(s.kind)) return spaces(p, end, false, false);
  return static_cast<std::size_t>(run(q + s.length, end, s.kind) - p);
}

std::size_t Splitter::next_llama(const char* p, const char* end, int digits, bool whole_end) const {
  if (*p == '\'') {
    if (const std::size_t n = contraction(p, end, true)) return n;
  }
  const Step first = step(p, end);
  const char* q = p + first.length;
  if (first.kind == CharClass::kLetter) return static_cast<std::size_t>(run(q, end, CharClass::kLetter) - p);
  if (first.kind == CharClass::kNumber) {
    for (int n = 1; n < digits && q < end; ++n) {
      const Step s = step(q, end);
      if (s.kind != CharClass::kNumber) break;
      q += s.length;
    }
    return static_cast<std::size_t>(q - p);
  }
  const Step second = q < end ? step(q, end) : Step{CharClass::kNewline, 0};
  if (first.kind != CharClass::kNewline && second.kind == CharClass::kLetter) {
    return static_cast<std::size_t>(run(q + second.length, end, CharClass::kLetter) - p);
  }
  if (first.kind == CharClass::kOther || (*p == ' ' && second.kind == CharClass::kOther)) {
    q = run(q, end, CharClass::kOther);
    while (q < end && (*q == '\r' || *q == '\n')) ++q;
    return static_cast<std::size_t>(q - p);
  }
  return spaces(p, end, true, whole_end);
}

// A space before a word belongs to it; otherwise words and runs of separators alternate.
std::size_t Splitter::next_bloom(const char* p, const char* end) const {
  std::size_t length = 0;
  const auto parts = [&](const char* at) {
    const CodePoint c = read_utf8(at, end);
    length = c.length;
    if (is_space(classes_.char_class(c))) return true;
    return c.valid && kBloomPunctuation.find(c.value) != kBloomPunctuation.npos;
  };
  const auto begins_word = [&](const char* at) { return !parts(*at == ' ' && at + 1 < end ? at + 1 : at); };
  const char* q = p;
  if (begins_word(p)) {
    for (q += *q == ' '; q < end && !parts(q);) q += length;
  } else {
    do {
      (void)parts(q);
      q += length;
    } while (q < end && !begins_word(q));
  }
  return static_cast<std::size_t>(q - p);
}

}  // namespace stoa::token
