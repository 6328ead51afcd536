// Normalizers that take away, put in front or replace: Strip, Prepend, Replace, ByteLevel.
#pragma once

#include <optional>
#include <string>

#include "token/normalizers/normalizer.h"

namespace stoa::token {

class StripBlanks final : public Normalizer {
 public:
  StripBlanks(bool left, bool right, Tables tables)
      : left_(left), right_(right), tables_(std::move(tables)) {}
  void apply(AlignedText& text, RegexScratch& scratch) const override;

 private:
  const bool left_, right_;
  const Tables tables_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string inserted) : inserted_(std::move(inserted)) {}
  void apply(AlignedText& text, RegexScratch& scratch) const override;

 private:
  const std::string inserted_;
};

// What a "pattern" of a tokenizer.json matches: {"String": …} exactly this text, {"Regex": …}.
class TextPattern {
 public:
  TextPattern() = default;
  explicit TextPattern(Regex regex) : regex_(std::move(regex)) {}
  static TextPattern read(json::object o, std::string_view where);
  void find_all(std::string_view text, RegexScratch& scratch, std::vector<RegexMatch>& out) const;

 private:
  std::string literal_;
  std::optional<Regex> regex_;
};

class Replace final : public Normalizer {
 public:
  Replace(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(AlignedText& text, RegexScratch& scratch) const override;

 private:
  const TextPattern pattern_;
  const std::string content_;
};

// Bytes become characters of the byte alphabet.
class ByteAlphabetNormalizer final : public Normalizer {
 public:
  void apply(AlignedText& text, RegexScratch& scratch) const override;
};

}  // namespace stoa::token
