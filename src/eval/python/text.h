// Strings as Python sees them, where the harness's digits depend on it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::eval {

using Json = nlohmann::ordered_json;

// Without white space at both ends, or at one.
std::string_view strip(std::string_view text);
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
bool begins_with_space(std::string_view text);
bool ends_with_space(std::string_view text);
// str.isdigit() of ASCII digits; false for "".
bool is_digits(std::string_view text);
// string.punctuation.
inline constexpr std::string_view kAsciiPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
std::string replaced(std::string_view text, std::string_view from, std::string_view to);
// Pieces between white space: str.split().
std::vector<std::string_view> words_of(std::string_view text);
// The first of these pieces; "": there is none.
std::string_view first_word(std::string_view text);
// len(re.split(r"\s+", text)): pieces at the ends count although they are empty.
std::int64_t count_split_pieces(std::string_view text);
// Code points; bytes that are not UTF-8 count one each.
std::int64_t code_points(std::string_view text);
// float(text): also white space around, _ between digits, inf, infinity and nan; none where Python raises.
std::optional<double> python_float(std::string_view text);
// Pieces between `separator`, also empty ones: str.split(separator).
std::vector<std::string_view> pieces_of(std::string_view text, std::string_view separator);
// The first code point, whole; "" of "".
std::string_view first_character(std::string_view text);
// str.isupper(), str.islower().
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);
// str.lower(), str.capitalize().
std::string lowered(std::string_view text);
std::string capitalized(std::string_view text);
// str(value), json.dumps(value, ensure_ascii=False), and the same with indent=2.
std::string str_of(const Json& value);
std::string dumped(const Json& value);
std::string dumped_indented(const Json& value);
// ast.literal_eval: a number, string, list, tuple (as a list), dictionary, None, True or False. DataError
// where the text is none of these.
Json literal(std::string_view text);

}  // namespace stoa::eval
