// NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15) of Unicode 9, which Hugging Face tokenizers follows:
// characters newer than that stay as they are.
#pragma once

#include "token/normalizers/normalizer.h"

namespace stoa::token {

struct UnicodeFormOptions {
  bool compose, compatible;
};
void to_unicode_form(AlignedText& text, UnicodeFormOptions form, const CharacterTables& tables);

class UnicodeForm final : public Normalizer {
 public:
  UnicodeForm(UnicodeFormOptions form, Tables tables) : form_(form), tables_(std::move(tables)) {}
  void apply(AlignedText& text, RegexScratch& scratch) const override;

 private:
  const UnicodeFormOptions form_;
  const Tables tables_;
};

}  // namespace stoa::token
