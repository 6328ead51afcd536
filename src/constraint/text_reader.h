// Reads the text of a grammar or a regular expression character by character.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "constraint/budget.h"
#include "constraint/code_set.h"

namespace stoa::constraint {

inline constexpr int kDeepestGroup = 64;  // of groups within groups

class TextReader {
 public:
  // `what`: what the text is, for messages: "the grammar". ConstraintError: it is not UTF-8.
  TextReader(std::string_view text, std::string_view what) : what_(what) {
    auto chars = characters_of(text);
    require<ConstraintError>(chars.has_value(), "{} is not UTF-8", what);
    chars_ = std::move(*chars);
  }

  bool done() const { return at_ >= chars_.size(); }
  // 0 behind the end.
  char32_t peek(std::size_t ahead = 0) const {
    return at_ + ahead < chars_.size() ? chars_[at_ + ahead] : U'\0';
  }
  char32_t take() {
    if (done()) fail("it ends too early");
    return chars_[at_++];
  }
  bool take_if(char32_t c) {
    if (done() || chars_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_if(std::u32string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i)
      if (at_ + i >= chars_.size() || chars_[at_ + i] != text[i]) return false;
    at_ += text.size();
    return true;
  }
  std::size_t place() const { return at_; }
  void go_to(std::size_t place) { at_ = place; }

  // `digits` hexadecimal digits.
  char32_t take_hexadecimal(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char32_t c = take();
      const int digit = c >= U'0' && c <= U'9'   ? static_cast<int>(c - U'0')
                        : c >= U'a' && c <= U'f' ? static_cast<int>(c - U'a') + 10
                        : c >= U'A' && c <= U'F' ? static_cast<int>(c - U'A') + 10
                                                 : -1;
      if (digit < 0) fail("a hexadecimal digit was expected");
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value > 0x10FFFF) fail("there is no character beyond U+10FFFF");
    return value;
  }
  // A decimal number; none: there is none here. ConstraintError: above a million.
  std::optional<std::int64_t> take_number() {
    if (peek() < U'0' || peek() > U'9') return std::nullopt;
    std::int64_t value = 0;
    while (peek() >= U'0' && peek() <= U'9') {
      value = value * 10 + static_cast<std::int64_t>(take() - U'0');
      if (value > 1'000'000) fail("a count above 1000000");
    }
    return value;
  }

  [[noreturn]] void fail(std::string_view why) const {
    std::size_t line = 1, column = 1;
    for (std::size_t i = 0; i < at_ && i < chars_.size(); ++i) {
      ++column;
      if (chars_[i] == U'\n') ++line, column = 1;
    }
    stoa::fail<ConstraintError>("{}, line {}, character {}: {}", what_, line, column, why);
  }

 private:
  const std::string_view what_;
  std::vector<char32_t> chars_;
  std::size_t at_ = 0;
};

}  // namespace stoa::constraint
