#include "foreign/megatron/shell_arithmetic.h"

#include "config/value.h"
#include "foreign/megatron/shell_statements.h"

namespace stoa::foreign {
namespace {

constexpr int kDeepest = 64;

class ShellSum {
 public:
  ShellSum(std::string_view text, const ShellVariable& variable, int depth)
      : text_(text), variable_(variable), depth_(depth) {}

  std::optional<std::int64_t> read() {
    const auto value = compared();
    if (peek() != '\0') return {};
    return value;
  }

 private:
  using Value = std::optional<std::int64_t>;

  char peek() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '"'))
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool skip(std::string_view sign) {
    peek();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  Value compared() {
    Value left = sum();
    for (;;) {
      if (skip("=="))
        left = with(left, sum(), [](auto a, auto b) -> Value { return a == b; });
      else if (skip("!="))
        left = with(left, sum(), [](auto a, auto b) -> Value { return a != b; });
      else if (skip("<="))
        left = with(left, sum(), [](auto a, auto b) -> Value { return a <= b; });
      else if (skip(">="))
        left = with(left, sum(), [](auto a, auto b) -> Value { return a >= b; });
      else if (skip("<"))
        left = with(left, sum(), [](auto a, auto b) -> Value { return a < b; });
      else if (skip(">"))
        left = with(left, sum(), [](auto a, auto b) -> Value { return a > b; });
      else
        return left;
    }
  }
  Value sum() {
    Value left = product();
    for (;;) {
      if (skip("+"))
        left = with(left, product(), [](auto a, auto b) { return checked(a, b, '+'); });
      else if (skip("-"))
        left = with(left, product(), [](auto a, auto b) { return checked(a, b, '-'); });
      else
        return left;
    }
  }
  Value product() {
    Value left = power();
    for (;;) {
      if (peek() == '*' && !text_.substr(at_).starts_with("**")) {
        skip("*");
        left = with(left, power(), [](auto a, auto b) { return checked(a, b, '*'); });
      } else if (skip("/")) {
        left =
            with(left, power(), [](auto a, auto b) -> Value { return b == 0 || b == -1 ? Value() : a / b; });
      } else if (skip("%")) {
        left =
            with(left, power(), [](auto a, auto b) -> Value { return b == 0 || b == -1 ? Value() : a % b; });
      } else {
        return left;
      }
    }
  }
  Value power() {
    const Value base = unary();
    if (!skip("**")) return base;
    return with(base, power(), [](std::int64_t a, std::int64_t b) -> Value {
      if (b < 0 || b > 63) return {};
      Value out = 1;
      for (std::int64_t i = 0; i < b && out; ++i) out = checked(*out, a, '*');
      return out;
    });
  }
  Value unary() {
    if (++nested_ > kDeepest) return {};
    if (skip("-")) return with(0, unary(), [](auto a, auto b) { return checked(a, b, '-'); });
    if (skip("(")) {
      const Value inside = compared();
      return skip(")") ? inside : Value();
    }
    const char c = peek();
    const std::size_t begin = at_;
    if (c == '$') {
      ++at_;
      const bool braces = at_ < text_.size() && text_[at_] == '{';
      if (braces) ++at_;
      const Value value = named();
      if (braces && !skip("}")) return {};
      return value;
    }
    if (c >= '0' && c <= '9') {
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      return config::parse_integer(text_.substr(begin, at_ - begin));
    }
    return named();
  }
  Value named() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    if (at_ == begin || depth_ > kDeepest) return {};
    const auto text = variable_(text_.substr(begin, at_ - begin));
    if (!text) return {};
    return ShellSum(*text, variable_, depth_ + 1).read();
  }

  template <class F>
  static Value with(Value a, Value b, F f) {
    return a && b ? f(*a, *b) : Value();
  }
  static Value checked(std::int64_t a, std::int64_t b, char op) {
    std::int64_t out = 0;
    const bool over = op == '+'   ? __builtin_add_overflow(a, b, &out)
                      : op == '-' ? __builtin_sub_overflow(a, b, &out)
                                  : __builtin_mul_overflow(a, b, &out);
    return over ? Value() : out;
  }

  std::string_view text_;
  const ShellVariable& variable_;
  int depth_;
  int nested_ = 0;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view text, const ShellVariable& variable) {
  return ShellSum(text, variable, 0).read();
}

}  // namespace stoa::foreign
