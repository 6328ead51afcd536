// Chats as text, as lm-evaluation-harness asks transformers for it.
#pragma once

#include "eval/requests/prompt.h"
#include "token/tokenizer.h"

namespace stoa::eval {

// By the tokenizer's own template. ConfigError: it has none.
ChatFunction chat_function(const token::Tokenizer& tokenizer);

}  // namespace stoa::eval
