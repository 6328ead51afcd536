#include "config/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/nearest.h"

namespace stoa::config {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Removes underscores that stand between digits; nullopt where one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

// [sign] digits [. digits] [e [sign] digits], at least one digit before the exponent, no leading zero before
// another digit.
bool matches_decimal(std::string_view text) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t first = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i - first;
  };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  const std::size_t start = i;
  std::size_t mantissa = digits();
  if (mantissa > 1 && text[start] == '0') return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    mantissa += digits();
  }
  if (mantissa == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool is_yes_no(std::string_view text) {
  const std::string word = lower(text);
  return word == "yes" || word == "no" || word == "on" || word == "off";
}

}  // namespace

bool looks_like_number(std::string_view text) {
  if (text.empty()) return false;
  if (text.find_first_not_of("0123456789+-.eE_xXabcdfABCDFo") != std::string_view::npos) return false;
  const auto plain = without_underscores(text);
  if (plain && matches_decimal(*plain)) return true;
  // What other YAML readers take as a number is quoted too: octal, hexadecimal, leading zeros.
  const bool digits_only = std::all_of(text.begin(), text.end(), is_digit);
  return digits_only || text.substr(0, 2) == "0x" || text.substr(0, 2) == "0o";
}

std::optional<double> parse_real(std::string_view text) {
  const auto plain = without_underscores(text);
  if (!plain || !matches_decimal(*plain)) return std::nullopt;
  const std::string_view digits =
      plain->front() == '+' ? std::string_view(*plain).substr(1) : std::string_view(*plain);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  const auto plain = without_underscores(text);
  if (!plain || !matches_decimal(*plain)) return std::nullopt;
  if (plain->find_first_of("eE") != std::string::npos) {
    constexpr double kExact = 9007199254740992.0;  // 2^53
    const auto value = parse_real(text);
    if (!value || std::trunc(*value) != *value || std::abs(*value) > kExact) return std::nullopt;
    return static_cast<std::int64_t>(*value);
  }
  const std::string_view digits =
      plain->front() == '+' ? std::string_view(*plain).substr(1) : std::string_view(*plain);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::string print_real(double value) {
  std::string text = fmt::format("{}", value);
  // fmt writes 1e+30 and 1e-05; both read back. A bare integer keeps a point so that people see a real.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::size_t find_choice(const Node& node, std::span<const std::string> names) {
  // A choice may spell "null": NeMo's word for "none" in some keys.
  if (node.is_scalar() || node.is_null()) {
    const std::string given = node.is_null() ? "null" : lower(node.scalar);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (lower(names[i]) == given) return i;
    }
  }
  throw ValueError{fmt::format("one of {}", fmt::join(names, ", ")),
                   node.is_scalar() ? did_you_mean(node.scalar, names) : ""};
}

bool Codec<bool>::parse(const Node& node) {
  if (node.is_scalar() && !node.quoted) {
    if (node.scalar == "true" || node.scalar == "True" || node.scalar == "TRUE") return true;
    if (node.scalar == "false" || node.scalar == "False" || node.scalar == "FALSE") return false;
    if (is_yes_no(node.scalar))
      throw ValueError{"true or false", " (yes/no/on/off mean different things to different readers)"};
  }
  throw ValueError{"true or false", node.is_scalar() && node.quoted ? " without quotes" : ""};
}

std::int64_t Codec<std::int64_t>::parse(const Node& node) {
  if (node.is_scalar() && !node.quoted) {
    if (const auto value = parse_integer(node.scalar)) return *value;
  }
  throw ValueError{"an integer", node.is_scalar() && node.quoted ? " without quotes" : ""};
}

double Codec<double>::parse(const Node& node) {
  if (node.is_scalar() && !node.quoted) {
    if (const auto value = parse_real(node.scalar)) return *value;
  }
  throw ValueError{"a number", node.is_scalar() && node.quoted ? " without quotes" : ""};
}

std::string Codec<std::string>::parse(const Node& node) {
  if (!node.is_scalar()) throw ValueError{"text", ""};
  if (!node.quoted) {
    const std::string word = lower(node.scalar);
    if (word == "true" || word == "false" || is_yes_no(word)) {
      throw ValueError{"text",
                       " (unquoted it is a truth value: write \"" + node.scalar + "\" if the word is meant)"};
    }
  }
  return node.scalar;
}

}  // namespace stoa::config
