#include "eval/python/text.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"
#include "chat/runtime.h"
#include "chat/value.h"

namespace stoa::eval {
namespace {

chat::Budget plenty() { return chat::Budget(std::int64_t{1} << 40); }

}  // namespace

std::string_view strip_left(std::string_view text) {
  while (const std::size_t n = leading_white_space(text)) text.remove_prefix(n);
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (const std::size_t n = trailing_white_space(text)) text.remove_suffix(n);
  return text;
}

std::string_view strip(std::string_view text) { return strip_left(strip_right(text)); }

bool begins_with_space(std::string_view text) { return leading_white_space(text) > 0; }
bool ends_with_space(std::string_view text) { return trailing_white_space(text) > 0; }

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, begin)) {
    out += text.substr(begin, at - begin);
    out += to;
    begin = at + from.size();
  }
  return out += text.substr(begin);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (text = strip_left(text); !text.empty(); text = strip_left(text)) {
    out.push_back(first_word(text));
    text.remove_prefix(out.back().size());
  }
  return out;
}

std::string_view first_word(std::string_view text) {
  text = strip_left(text);
  std::size_t end = 0;
  while (end < text.size() && leading_white_space(text.substr(end)) == 0) ++end;
  return text.substr(0, end);
}

std::int64_t count_split_pieces(std::string_view text) {
  const auto inside = static_cast<std::int64_t>(words_of(text).size());
  if (inside == 0) return text.empty() ? 1 : 2;
  return inside + begins_with_space(text) + ends_with_space(text);
}

std::int64_t code_points(std::string_view text) { return chat::count_characters(text); }

std::string lowered(std::string_view text) {
  auto budget = plenty();
  return chat::change_case(text, chat::Case::kLower, budget);
}

std::string capitalized(std::string_view text) {
  auto budget = plenty();
  return chat::change_case(text, chat::Case::kCapitalize, budget);
}

bool is_upper(std::string_view text) {
  auto budget = plenty();
  return chat::change_case(text, chat::Case::kUpper, budget) == text &&
         chat::change_case(text, chat::Case::kLower, budget) != text;
}

bool is_lower(std::string_view text) {
  auto budget = plenty();
  return chat::change_case(text, chat::Case::kLower, budget) == text &&
         chat::change_case(text, chat::Case::kUpper, budget) != text;
}

std::optional<double> python_float(std::string_view text) {
  text = strip(text);
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit_at = [&](std::size_t at) { return at < text.size() && is_digits(text.substr(at, 1)); };
    if (text[i] != '_')
      digits += text[i];
    else if (i == 0 || !digit_at(i - 1) || !digit_at(i + 1))
      return std::nullopt;
  }
  std::string_view rest = digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.starts_with('-') || rest.starts_with('+')) return std::nullopt;
  double out = 0;
  const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), out);
  if (end != rest.data() + rest.size() || rest.find('(') != std::string_view::npos) return std::nullopt;
  if (code == std::errc::result_out_of_range) {
    // Too large or too small; from_chars does not say which.
    const std::size_t exponent = rest.find_first_of("eE");
    const bool small = exponent != std::string_view::npos ? rest.substr(exponent + 1).starts_with('-')
                                                          : rest.starts_with('0') || rest.starts_with('.');
    out = small ? 0.0 : std::numeric_limits<double>::infinity();
  } else if (code != std::errc()) {
    return std::nullopt;
  }
  return negative ? -out : out;
}

std::vector<std::string_view> pieces_of(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> out;
  for (std::size_t at = text.find(separator); at != std::string_view::npos; at = text.find(separator)) {
    out.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  out.push_back(text);
  return out;
}

std::string_view first_character(std::string_view text) {
  std::size_t n = text.empty() ? 0 : 1;
  while (n < text.size() && (static_cast<unsigned char>(text[n]) & 0xC0U) == 0x80U) ++n;
  return text.substr(0, n);
}

std::string str_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  auto budget = plenty();
  return chat::to_string(chat::Value::from_json(value), budget);
}

std::string dumped(const Json& value) {
  auto budget = plenty();
  return chat::to_json(chat::Value::from_json(value), {}, budget);
}

std::string dumped_indented(const Json& value) {
  auto budget = plenty();
  chat::JsonStyle style;
  style.indent = 2;
  return chat::to_json(chat::Value::from_json(value), style, budget);
}

namespace {

class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  Json run() {
    space();
    Json out = value(0);
    space();
    if (at_ < text_.size() && peek() == ',') {  // a tuple without parentheses
      Json items = Json::array({std::move(out)});
      rest_of(items, '\0', 0);
      out = std::move(items);
    }
    if (at_ != text_.size()) wrong();
    return out;
  }

 private:
  [[noreturn]] void wrong() const {
    fail<DataError>("'{}' is no Python literal (at byte {})",
                    text_.size() > 60 ? std::string(text_.substr(0, 60)) + "…" : std::string(text_), at_);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void space() {
    while (at_ < text_.size() && (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r')) ++at_;
  }
  bool word(std::string_view name) {
    if (text_.substr(at_, name.size()) != name) return false;
    at_ += name.size();
    return true;
  }

  // Items behind the first, up to `close`.
  void rest_of(Json& items, char close, int depth) {
    for (;;) {
      space();
      if (peek() == close) break;
      if (peek() != ',') wrong();
      ++at_;
      space();
      if (peek() == close) break;
      items.push_back(value(depth + 1));
    }
    if (close != '\0') ++at_;
  }

  Json sequence(char close, int depth) {
    ++at_;
    space();
    Json items = Json::array();
    if (peek() == close) return ++at_, items;
    items.push_back(value(depth + 1));
    space();
    if (close == ')' && peek() == ')') return ++at_, Json(items[0]);  // parentheses only
    rest_of(items, close, depth);
    return items;
  }

  Json dictionary(int depth) {
    ++at_;
    Json out = Json::object();
    for (space(); peek() != '}'; space()) {
      const Json key = value(depth + 1);
      space();
      if (peek() != ':') wrong();
      ++at_;
      space();
      out[str_of(key)] = value(depth + 1);
      space();
      if (peek() == ',')
        ++at_;
      else if (peek() != '}')
        wrong();
    }
    ++at_;
    return out;
  }

  Json value(int depth) {
    if (depth > 50) wrong();
    const char c = peek();
    if (c == '[') return sequence(']', depth);
    if (c == '(') return sequence(')', depth);
    if (c == '{') return dictionary(depth);
    if (c == '\'' || c == '"' || ((c == 'r' || c == 'u' || c == 'b') && is_quote(at_ + 1))) return strings();
    if (word("None")) return nullptr;
    if (word("True")) return true;
    if (word("False")) return false;
    return number();
  }

  bool is_quote(std::size_t at) const { return at < text_.size() && (text_[at] == '\'' || text_[at] == '"'); }

  Json strings() {  // neighbours join
    std::string out;
    while (is_quote(at_) || ((peek() == 'r' || peek() == 'u') && is_quote(at_ + 1))) {
      const bool raw = peek() == 'r';
      if (!is_quote(at_)) ++at_;
      string(raw, out);
      space();
    }
    if (out.empty() && peek() == 'b') wrong();
    return out;
  }

  void string(bool raw, std::string& out) {
    const char quote = text_[at_];
    const bool triple = text_.substr(at_, 3) == std::string(3, quote);
    const std::string close(triple ? 3 : 1, quote);
    at_ += close.size();
    while (text_.substr(at_, close.size()) != close) {
      if (at_ >= text_.size() || (!triple && text_[at_] == '\n')) wrong();
      if (text_[at_] != '\\') {
        out += text_[at_++];
      } else if (raw) {
        out += text_[at_++];
        if (at_ < text_.size()) out += text_[at_++];
      } else {
        ++at_;
        escape(out);
      }
    }
    at_ += close.size();
  }

  void escape(std::string& out) {
    const char c = peek();
    ++at_;
    static constexpr std::string_view kNames = "\\'\"abfnrtv", kBytes = "\\'\"\a\b\f\n\r\t\v";
    if (const auto at = kNames.find(c); at != std::string_view::npos) {
      out += kBytes[at];
    } else if (c == '\n') {
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_utf8(digits(c == 'x' ? 2 : c == 'u' ? 4 : 8, 16), out);
    } else if (c >= '0' && c <= '7') {
      --at_;
      std::size_t n = 0;
      while (n < 3 && at_ + n < text_.size() && text_[at_ + n] >= '0' && text_[at_ + n] <= '7') ++n;
      append_utf8(digits(n, 8), out);
    } else if (c == 'N') {
      wrong();
    } else {
      out += '\\';
      out += c;
    }
  }

  char32_t digits(std::size_t count, int base) {
    char32_t value = 0;
    for (std::size_t i = 0; i < count; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : 99;
      if (digit >= base) wrong();
      value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit);
    }
    if (value > 0x10FFFF) wrong();
    return value;
  }

  Json number() {
    const std::size_t begin = at_;
    std::string digits;
    if (peek() == '-' || peek() == '+') digits += text_[at_++];
    bool real = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool sign = (c == '+' || c == '-') && (digits.back() == 'e' || digits.back() == 'E');
      if (c == '_') {
        ++at_;
        continue;
      }
      if (!((c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || sign)) break;
      real = real || c == '.' || c == 'e' || c == 'E';
      digits += c;
      ++at_;
    }
    std::string plain = digits.starts_with('+') ? digits.substr(1) : digits;
    const std::size_t first = plain.starts_with('-') ? 1 : 0;
    if (plain.size() == first || (!real && plain.size() > first + 1 && plain[first] == '0')) {
      at_ = begin;
      wrong();
    }
    try {
      if (real) return std::stod(plain);
      return std::stoll(plain);
    } catch (const std::exception&) {
      wrong();
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Json literal(std::string_view text) { return LiteralReader(text).run(); }

}  // namespace stoa::eval
