#include "token/normalizers/edits.h"

namespace stoa::token {

void StripBlanks::apply(AlignedText& text, RegexScratch&) const {
  text.strip(left_, right_, tables_->classes);
}

void Prepend::apply(AlignedText& text, RegexScratch&) const { text.prepend(inserted_); }

TextPattern TextPattern::read(json::object o, std::string_view where) {
  TextPattern out;
  if (const auto literal = member(o, "String")) out.literal_ = text_of(*literal, where);
  if (const auto regex = member(o, "Regex")) {
    only_keys(o, {"Regex"}, where);
    out.regex_.emplace(text_of(*regex, where));
    return out;
  }
  only_keys(o, {"String"}, where);
  require<DataError>(member(o, "String").has_value(), "{} has neither String nor Regex", where);
  if (out.literal_.empty()) out.regex_.emplace("");  // matches between any two characters
  return out;
}

void TextPattern::find_all(std::string_view text, RegexScratch& scratch, std::vector<RegexMatch>& out) const {
  if (regex_) return regex_->find_all(text, scratch, out);
  find_literal(text, literal_, out);
}

void Replace::apply(AlignedText& text, RegexScratch& scratch) const {
  if (text.text().empty()) return;
  std::vector<RegexMatch> matches;
  pattern_.find_all(text.text(), scratch, matches);
  text.replace(matches, content_);
}

void ByteAlphabetNormalizer::apply(AlignedText& text, RegexScratch&) const { text.to_byte_alphabet(); }

}  // namespace stoa::token
