// Where the tokens of a text end in it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "token/encoder.h"

namespace stoa::tune {

// By token: the byte of `text` at which it ends; none where the tokens do not spell the text exactly (a
// normalizer changed it).
std::optional<std::vector<std::size_t>> token_ends(const token::Tokenizer& tokenizer, std::string_view text,
                                                   std::span<const token::TokenId> ids);

// Number of the first token that reaches beyond byte `at`, as far as it can be told from the tokens of the
// text up to there: how many tokens the two begin with alike. For texts without token_ends().
std::size_t token_at(token::Encoder& encoder, std::string_view text, std::span<const token::TokenId> ids,
                     std::size_t at, token::EncodeOptions options);

}  // namespace stoa::tune
