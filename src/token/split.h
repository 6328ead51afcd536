// Cuts text into the words that BPE merges within, by hand-written matchers of the regular expressions in
// tokenizer files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "token/unicode.h"

namespace stoa::token {

enum class SplitPattern : std::uint8_t {
  kNone,    // the whole text is one word
  kGpt2,    // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kLlama3,  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
            // ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  kQwen2,   // as Llama-3 with \p{N}
  kBloom,   //  ?[^(\s|[.,!?…。，、।۔،])]+, and what lies between two matches is a word too
  kCl100k,  // as Llama-3, but white space up to the end of the text is one word (tiktoken)
  kOther,   // something else, which a Splitter does not know
};

// "none", "gpt2", "llama3", "qwen2", "bloom", "cl100k", "other"
std::string_view name(SplitPattern pattern);
std::string_view regex(SplitPattern pattern);  // as written in a tokenizer.json; "" for none and other
std::optional<SplitPattern> split_pattern_named(std::string_view name);
std::optional<SplitPattern> split_pattern_of_regex(std::string_view regex);

// Matches one word at a time. Any bytes are accepted (see CodePoint); a text is split as a whole, since what
// follows a run of spaces decides where it is cut.
class Splitter {
 public:
  explicit Splitter(SplitPattern pattern);
  SplitPattern pattern() const { return pattern_; }
  const UnicodeClasses& classes() const { return classes_; }

  // Length in bytes (>= 1) of the word that starts at p < end, where `end` is the end of the text.
  std::size_t next(const char* p, const char* end) const {
    switch (pattern_) {
      case SplitPattern::kGpt2:
        return next_gpt2(p, end);
      case SplitPattern::kLlama3:
        return next_llama(p, end, 3, false);
      case SplitPattern::kQwen2:
        return next_llama(p, end, 1, false);
      case SplitPattern::kCl100k:
        return next_llama(p, end, 3, true);
      case SplitPattern::kBloom:
        return next_bloom(p, end);
      case SplitPattern::kNone:
      case SplitPattern::kOther:
        break;
    }
    return static_cast<std::size_t>(end - p);
  }

 private:
  struct Step {
    CharClass kind;
    std::uint8_t length;
  };
  Step step(const char* p, const char* end) const {
    const auto b = static_cast<std::uint8_t>(*p);
    if (b < 0x80) return {ascii_[b], 1};
    const CodePoint c = read_utf8(p, end);
    return {classes_.char_class(c), c.length};
  }
  const char* run(const char* p, const char* end, CharClass kind) const {
    while (p < end) {
      const Step s = step(p, end);
      if (s.kind != kind) break;
      p += s.length;
    }
    return p;
  }
  std::size_t next_gpt2(const char* p, const char* end) const;
  std::size_t next_llama(const char* p, const char* end, int digits, bool whole_end) const;
  std::size_t next_bloom(const char* p, const char* end) const;
  std::size_t spaces(const char* p, const char* end, bool cut_at_newlines, bool whole_end) const;

  const SplitPattern pattern_;
  const UnicodeClasses classes_;
  CharClass ascii_[128];
};

}  // namespace stoa::token
