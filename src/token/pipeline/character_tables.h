// The tables of characters that the components of one tokenizer share.
#pragma once

#include "token/bert_unicode.h"
#include "token/unicode.h"
#include "token/unicode_properties.h"

namespace stoa::token {

struct CharacterTables {
  UnicodeClasses classes;
  BertUnicode bert;
  UnicodeProperties properties;
};

}  // namespace stoa::token
