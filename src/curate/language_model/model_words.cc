#include "curate/language_model/model_words.h"

#include "curate/text/character.h"
#include "curate/text/simplify.h"
#include "curate/text/space_words.h"

namespace stoa::curate {
namespace {

// What replaces a character; empty: it stays.
std::string_view ascii_mark(char32_t c) {
  switch (c) {
    case U'，':
    case U'、':
      return ",";
    case U'。':
      return ".";
    case U'．':
      return ". ";
    case U'„':
    case U'”':
    case U'“':
    case U'«':
    case U'»':
    case U'１':
    case U'」':
    case U'「':
    case U'《':
    case U'》':
      return "\"";
    case U'´':
    case U'’':
      return "'";
    case U'∶':
    case U'：':
      return ":";
    case U'？':
      return "?";
    case U'！':
      return "!";
    case U'（':
      return "(";
    case U'）':
      return ")";
    case U'；':
      return ";";
    case U'–':
    case U'━':
      return "-";
    case U'—':
      return " - ";
    case U'～':
      return "~";
    case U'…':
      return "...";
    case U'〈':
      return "<";
    case U'〉':
      return ">";
    case U'【':
      return "[";
    case U'】':
      return "]";
    case U'％':
      return "%";
    case U'►':
      return "-";
    default:
      return {};
  }
}

}  // namespace

std::string ccnet_model_form(std::string_view text) {
  std::string lower, plain, out;
  append_lower(strip(text), lower);
  for (const char *p = lower.data(), *end = p + lower.size(); p < end;) {
    const Character c = read_character(p);
    append_without_marks(c.value, plain);
    p += c.length;
  }
  for (const char *p = plain.data(), *end = p + plain.size(); p < end;) {
    const Character c = read_character(p);
    if (characters().has(c.value, kDigit))
      out += '0';
    else if (const std::string_view mark = ascii_mark(c.value); !mark.empty())
      out += mark;
    else if (c.value >= 32 && (c.value < 127 || c.value >= 160))
      out.append(p, c.length);
    p += c.length;
  }
  return out;
}

ModelWords::ModelWords(const ModelWordOptions& options) : normalize_(options.normalize) {
  if (!options.tokenizer.empty()) tokenizer_ = token::Tokenizer::load(options.tokenizer);
}

void ModelWords::split(std::string_view text, Line& line) const {
  line.words.clear();
  if (normalize_) text = line.text = ccnet_model_form(text);
  if (!tokenizer_) return split_at_white_space(text, line.words);
  const auto ids = tokenizer_->encode(text);
  std::vector<std::size_t> ends;
  line.text.clear();
  for (const token::TokenId id : ids) {
    line.text += tokenizer_->id_to_token(id);
    ends.push_back(line.text.size());
  }
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    line.words.push_back(std::string_view(line.text).substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace stoa::curate
