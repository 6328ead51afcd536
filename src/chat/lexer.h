// A Jinja template cut into text and the tokens of its tags. White space is handled as Hugging Face sets it:
// trim_blocks and lstrip_blocks on, one newline at the end of the template dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/value.h"

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
std::vector<Token> tokenize(std::string_view source);

}  // namespace stoa::chat
