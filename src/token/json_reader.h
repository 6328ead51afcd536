// Reading JSON with messages that name the place. Private to src/token.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "token/bpe.h"

namespace stoa::token {

namespace json = simdjson::dom;

// DataError unless `text` is JSON; `what` names the file. The parser owns the tree.
json::element parse_json(json::parser& parser, std::string_view text, std::string_view what);
json::object object_of(json::element e, std::string_view where);
json::array array_of(json::element e, std::string_view where);
// A member, or nothing when it is absent or null.
std::optional<json::element> member(json::object o, std::string_view key);
json::element required(json::object o, std::string_view key, std::string_view where);
std::string text_of(json::element e, std::string_view where);
std::string text_member(json::object o, std::string_view key, std::string_view where);
std::string text_member(json::object o, std::string_view key, std::string otherwise, std::string_view where);
bool flag(json::object o, std::string_view key, bool otherwise, std::string_view where);
// A whole number from 0 to `most`.
std::uint64_t count_member(json::object o, std::string_view key, std::optional<std::uint64_t> otherwise,
                           std::uint64_t most, std::string_view where);
// A string of one character.
char32_t character_member(json::object o, std::string_view key, char32_t otherwise, std::string_view where);
std::string type_of(json::object o, std::string_view where);
// DataError for a key that is not among `known`: what is not understood must not be ignored.
void only_keys(json::object o, std::initializer_list<std::string_view> known, std::string_view where);
// Ids index tables, so a wild id must not size one.
TokenId token_id(json::element e, std::size_t entries, std::string_view where);

// The number that Hugging Face tokenizers has where a file holds `exact`: its parser takes the digits as a
// 64-bit integer and divides by a power of ten, which is off by a unit in the last place now and then.
double as_tokenizers_reads(double exact);

}  // namespace stoa::token
