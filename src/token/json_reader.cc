#include "token/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "base/lfs_pointer.h"
#include "token/unicode.h"

namespace stoa::token {

json::element parse_json(json::parser& parser, std::string_view text, std::string_view what) {
  refuse_lfs_pointer(std::as_bytes(std::span(text)), what);
  json::element root;
  const auto error = parser.parse(text.data(), text.size()).get(root);
  require<DataError>(!error, "{} is not valid JSON: {}", what, simdjson::error_message(error));
  return root;
}

json::object object_of(json::element e, std::string_view where) {
  json::object o;
  require<DataError>(!e.get(o), "{} must be an object", where);
  return o;
}

json::array array_of(json::element e, std::string_view where) {
  json::array list;
  require<DataError>(!e.get(list), "{} must be a list", where);
  return list;
}

std::optional<json::element> member(json::object o, std::string_view key) {
  json::element e;
  if (o.at_key(key).get(e) || e.is_null()) return std::nullopt;
  return e;
}

json::element required(json::object o, std::string_view key, std::string_view where) {
  const auto e = member(o, key);
  require<DataError>(e.has_value(), "{} has no '{}'", where, key);
  return *e;
}

std::string text_of(json::element e, std::string_view where) {
  std::string_view s;
  require<DataError>(!e.get(s), "{} must be a string", where);
  return std::string(s);
}

std::string text_member(json::object o, std::string_view key, std::string_view where) {
  return text_of(required(o, key, where), fmt::format("{}.{}", where, key));
}

std::string text_member(json::object o, std::string_view key, std::string otherwise, std::string_view where) {
  const auto e = member(o, key);
  return e ? text_of(*e, fmt::format("{}.{}", where, key)) : otherwise;
}

bool flag(json::object o, std::string_view key, bool otherwise, std::string_view where) {
  const auto e = member(o, key);
  if (!e) return otherwise;
  bool value = false;
  require<DataError>(!e->get(value), "{}.{} must be true or false", where, key);
  return value;
}

std::uint64_t count_member(json::object o, std::string_view key, std::optional<std::uint64_t> otherwise,
                           std::uint64_t most, std::string_view where) {
  const auto e = member(o, key);
  if (!e && otherwise) return *otherwise;
  std::uint64_t value = 0;
  require<DataError>(e && !e->get(value) && value <= most, "{}.{} must be a whole number from 0 to {}", where,
                     key, most);
  return value;
}

char32_t character_member(json::object o, std::string_view key, char32_t otherwise, std::string_view where) {
  const auto e = member(o, key);
  if (!e) return otherwise;
  const std::string text = text_of(*e, fmt::format("{}.{}", where, key));
  const CodePoint c =
      text.empty() ? CodePoint{0, 0, false} : read_utf8(text.data(), text.data() + text.size());
  require<DataError>(c.valid && c.length == text.size(), "{}.{} must be one character, got '{}'", where, key,
                     text);
  return c.value;
}

std::string type_of(json::object o, std::string_view where) {
  const auto type = member(o, "type");
  require<DataError>(type.has_value(), "{} has no type", where);
  return text_of(*type, where);
}

void only_keys(json::object o, std::initializer_list<std::string_view> known, std::string_view where) {
  for (const auto field : o) {
    require<DataError>(std::find(known.begin(), known.end(), field.key) != known.end(),
                       "{} has '{}', which Stoa does not support", where, field.key);
  }
}

TokenId token_id(json::element e, std::size_t entries, std::string_view where) {
  std::uint64_t id = 0;
  require<DataError>(!e.get(id), "{}: a token id must be a whole number from 0", where);
  require<DataError>(id < 4 * entries + 65536, "{}: token id {} is far beyond the {} entries", where, id,
                     entries);
  return static_cast<TokenId>(id);
}

namespace {

// 1e0 … 1e308, each to the nearest.
const std::array<double, 309>& powers_of_ten() {
  static const auto table = [] {
    std::array<double, 309> out{};
    for (std::size_t n = 0; n < out.size(); ++n) {
      const std::string name = fmt::format("1e{}", n);
      std::from_chars(name.data(), name.data() + name.size(), out[n]);
    }
    return out;
  }();
  return table;
}

}  // namespace

double as_tokenizers_reads(double exact) {
  if (exact == 0) return exact;
  // The shortest digits that stand for the number, which is what files hold: -7.21e+00.
  char text[40];
  const char *begin = text,
             *end = std::to_chars(text, text + sizeof text, exact, std::chars_format::scientific).ptr;
  const char* exponent_sign = std::find(begin, end, 'e');
  std::uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  for (const char* p = begin; p < exponent_sign; ++p) {
    if (*p == '.') fraction = true;
    if (*p < '0' || *p > '9') continue;
    digits = digits * 10 + static_cast<std::uint64_t>(*p - '0');
    if (fraction) --exponent;
  }
  int written = 0;
  const char* power = exponent_sign + (exponent_sign[1] == '+' ? 2 : 1);
  std::from_chars(power, end, written);
  exponent += written;
  auto value = static_cast<double>(digits);
  const auto powers = std::span(powers_of_ten());
  const int largest = static_cast<int>(powers.size()) - 1;
  if (exponent < -largest) value /= powers.back(), exponent += largest;
  value = exponent >= 0 ? value * powers[static_cast<std::size_t>(exponent)]
                        : value / powers[static_cast<std::size_t>(-exponent)];
  return exact < 0 ? -value : value;
}

}  // namespace stoa::token
