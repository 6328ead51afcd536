// Regular expressions of tokenizer files, by Oniguruma, the engine of Hugging Face tokenizers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::token {

struct RegexMatch {
  std::uint32_t begin, end;  // bytes
};

// What a search writes in; one per thread.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;
  RegexScratch& operator=(RegexScratch&&) noexcept;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

// Immutable; may be searched by several threads, each with its scratch.
class Regex {
 public:
  enum class Dialect : std::uint8_t {
    kTokenizers,  // as Hugging Face tokenizers reads patterns: `$` ends a line, {1,3}+ repeats {1,3}
    kTiktoken,    // as tiktoken does: `$` ends the text, {1,3}+ gives nothing back
  };
  // DataError when the pattern is none.
  explicit Regex(std::string_view pattern, Dialect dialect = Dialect::kTokenizers);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) = delete;

  const std::string& pattern() const { return pattern_; }
  // Appends all matches from left to right; they do not overlap, and an empty one does not touch the one
  // before it. Any bytes are taken: one that is not UTF-8 counts as the control character U+0001. DataError
  // when the pattern backtracks without end on this text (kRetryLimit for one match).
  void find_all(std::string_view text, RegexScratch& scratch, std::vector<RegexMatch>& out) const;

  static constexpr unsigned long kRetryLimit = 10'000'000;

 private:
  struct Program;
  std::string pattern_;
  std::unique_ptr<const Program> program_;
};

// What the pattern for exactly this text would match, without one.
void find_literal(std::string_view text, std::string_view literal, std::vector<RegexMatch>& out);

}  // namespace stoa::token
