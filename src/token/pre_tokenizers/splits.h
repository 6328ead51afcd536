// Pre-tokenizers that split the text without changing it.
#pragma once

#include "token/normalizers/edits.h"
#include "token/pre_tokenizers/pre_tokenizer.h"

namespace stoa::token {

SplitBehavior read_behavior(json::object o, std::optional<SplitBehavior> otherwise, std::string_view where);

// At whatever a pattern matches.
class SplitAtPattern final : public PreTokenizer {
 public:
  SplitAtPattern(TextPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void apply(Pieces& pieces, PieceScratch& scratch) const override;

 private:
  const TextPattern pattern_;
  const SplitBehavior behavior_;
  const bool invert_;
};

// At the characters of one kind: Digits, Punctuation, WhitespaceSplit, CharDelimiterSplit.
class SplitAtCharacters final : public PreTokenizer {
 public:
  enum class Kind : std::uint8_t { kNumeric, kPunctuation, kSpace, kDelimiter };
  SplitAtCharacters(Kind kind, SplitBehavior behavior, Tables tables, char32_t delimiter = 0)
      : kind_(kind), behavior_(behavior), delimiter_(delimiter), tables_(std::move(tables)) {}
  void apply(Pieces& pieces, PieceScratch& scratch) const override;

 private:
  const Kind kind_;
  const SplitBehavior behavior_;
  const char32_t delimiter_;
  const Tables tables_;
};

// Runs of word characters and runs of what is neither word nor white space: \w+|[^\w\s]+.
class SplitWords final : public PreTokenizer {
 public:
  explicit SplitWords(Tables tables) : tables_(std::move(tables)) {}
  void apply(Pieces& pieces, PieceScratch& scratch) const override;

 private:
  const Tables tables_;
};

// Where the script changes; kana count as Han.
class SplitScripts final : public PreTokenizer {
 public:
  explicit SplitScripts(Tables tables) : tables_(std::move(tables)) {}
  void apply(Pieces& pieces, PieceScratch& scratch) const override;

 private:
  const Tables tables_;
};

// After every so many characters.
class SplitLengths final : public PreTokenizer {
 public:
  explicit SplitLengths(std::uint64_t length) : length_(length) {}
  void apply(Pieces& pieces, PieceScratch& scratch) const override;

 private:
  const std::uint64_t length_;
};

// One after another.
class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<const PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  void apply(Pieces& pieces, PieceScratch& scratch) const override;

 private:
  const std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

}  // namespace stoa::token
