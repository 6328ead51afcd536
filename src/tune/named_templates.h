// Chat templates by name, for models that have none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "token/tokenizer.h"

namespace stoa::tune {

struct NamedTemplate {
  std::string_view name, jinja;
  std::vector<std::string_view> tokens;  // special tokens that it writes, in addition to bos and eos
  std::string_view end;                  // ends a turn; "": the tokenizer's eos token
};
const std::vector<NamedTemplate>& named_templates();

// A tokenizer with a template: what of its special tokens the tokenizer lacked has been added behind its
// vocabulary, and eos is the token that ends a turn.
struct TemplatedTokenizer {
  token::Tokenizer tokenizer;
  std::vector<token::TokenId> added;  // rising
};

// `choice`: the name of a template, the path of a Jinja file, or "none" for no template. ConfigError:
// neither; the nearest name is reported. DataError: the tokenizer has files to which no token can be added,
// or no eos token where the template needs it.
TemplatedTokenizer with_template(const token::Tokenizer& tokenizer, const std::string& choice);

}  // namespace stoa::tune
