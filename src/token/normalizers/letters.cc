#include "token/normalizers/letters.h"

#include "token/normalizers/unicode_form.h"

namespace stoa::token {
namespace {

void lower_case(AlignedText& text, const BertUnicode& unicode) {
  text.rewrite([&](char32_t c, std::vector<CharacterChange>& out) {
    std::int32_t change = 0;
    unicode.lowered().apply(c, [&](char32_t to) {
      out.push_back({to, change});
      change = 1;
    });
  });
}

char32_t nmt_of(char32_t c) {
  const bool blank = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  return blank ? U' ' : c;
}

}  // namespace

void BertNormalizer::apply(AlignedText& text, RegexScratch&) const {
  const BertUnicode& unicode = tables_->bert;
  if (options_.clean_text) {
    text.filter([&](char32_t c) { return (unicode.classes(c) & BertUnicode::kRemoved) == 0; });
    text.rewrite([&](char32_t c, std::vector<CharacterChange>& out) {
      out.push_back({(unicode.classes(c) & BertUnicode::kSpace) != 0 ? U' ' : c, 0});
    });
  }
  if (options_.handle_chinese_chars) {
    text.rewrite([&](char32_t c, std::vector<CharacterChange>& out) {
      const bool chinese = (unicode.classes(c) & BertUnicode::kChinese) != 0;
      if (chinese) out.push_back({U' ', 0});
      out.push_back({c, chinese ? 1 : 0});
      if (chinese) out.push_back({U' ', 1});
    });
  }
  if (options_.strip_accents.value_or(options_.lowercase)) {
    to_unicode_form(text, {.compose = false, .compatible = false}, *tables_);
    text.filter([&](char32_t c) { return (unicode.classes(c) & BertUnicode::kMark) == 0; });
  }
  if (options_.lowercase) lower_case(text, unicode);
}

void Lowercase::apply(AlignedText& text, RegexScratch&) const { lower_case(text, tables_->bert); }

void StripAccents::apply(AlignedText& text, RegexScratch&) const {
  text.filter([&](char32_t c) { return !tables_->properties.has(c, UnicodeProperties::kMark); });
}

void Nmt::apply(AlignedText& text, RegexScratch&) const {
  text.filter([](char32_t c) {
    const bool removed =
        (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    return !removed;
  });
  text.rewrite([](char32_t c, std::vector<CharacterChange>& out) { out.push_back({nmt_of(c), 0}); });
}

}  // namespace stoa::token
