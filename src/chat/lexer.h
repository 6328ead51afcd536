// A Jinja template cut into text and the tokens of its tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/syntax.h"

namespace stoa::chat {

enum class TokenKind : unsigned char {
  kText,  // outside tags
  kPrintBegin,
  kPrintEnd,  // {{ }}
  kBlockBegin,
  kBlockEnd,  // {% %}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,  // text is the operator
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // strings: unescaped
  int line = 1;
};

// TemplateError names the line. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source, const WhiteSpace& space);

}  // namespace stoa::chat
