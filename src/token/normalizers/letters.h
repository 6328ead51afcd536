// Normalizers that look at one character at a time: BertNormalizer, Lowercase, StripAccents, Nmt.
#pragma once

#include <optional>

#include "token/normalizers/normalizer.h"

namespace stoa::token {

class BertNormalizer final : public Normalizer {
 public:
  struct Options {
    bool clean_text = true;             // control characters go, white space becomes blanks
    bool handle_chinese_chars = true;   // blanks around every ideograph
    std::optional<bool> strip_accents;  // none: as lowercase
    bool lowercase = true;
  };
  BertNormalizer(Options options, Tables tables) : options_(options), tables_(std::move(tables)) {}
  void apply(AlignedText& text, RegexScratch& scratch) const override;

 private:
  const Options options_;
  const Tables tables_;
};

class Lowercase final : public Normalizer {
 public:
  explicit Lowercase(Tables tables) : tables_(std::move(tables)) {}
  void apply(AlignedText& text, RegexScratch& scratch) const override;

 private:
  const Tables tables_;
};

class StripAccents final : public Normalizer {
 public:
  explicit StripAccents(Tables tables) : tables_(std::move(tables)) {}
  void apply(AlignedText& text, RegexScratch& scratch) const override;

 private:
  const Tables tables_;
};

// Control characters go, special blanks become blanks (nmt of SentencePiece).
class Nmt final : public Normalizer {
 public:
  void apply(AlignedText& text, RegexScratch& scratch) const override;
};

}  // namespace stoa::token
