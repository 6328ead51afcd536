#include "chat/lexer.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace stoa::chat {
namespace {

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  Lexer(std::string_view source, const WhiteSpace& space) : space_(space) {
    source_.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {  // every kind of line end is one
      if (source[i] == '\r') {
        source_ += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      } else {
        source_ += source[i];
      }
    }
    if (!space_.keep_trailing_newline && !source_.empty() && source_.back() == '\n') source_.pop_back();
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  // Plain text up to the next tag, and that tag.
  void text() {
    const std::string_view rest = std::string_view(source_).substr(at_);
    std::size_t open = 0;
    for (open = rest.find('{'); open != std::string_view::npos; open = rest.find('{', open + 1))
      if (open + 1 < rest.size() && (rest[open + 1] == '{' || rest[open + 1] == '%' || rest[open + 1] == '#'))
        break;
    std::string_view before = rest.substr(0, open);
    const std::size_t begin = at_;
    if (open == std::string_view::npos) {
      emit_text(before);
      advance(source_.size());
      return;
    }
    const char kind = rest[open + 1];
    std::size_t inside = open + 2;
    const char sign = inside < rest.size() ? rest[inside] : '\0';
    if (sign == '-' || sign == '+') ++inside;
    if (sign == '-') {
      while (const std::size_t n = trailing_white_space(before)) before.remove_suffix(n);
    } else if (space_.lstrip_blocks && sign != '+' && kind != '{') {
      const std::size_t line = before.rfind('\n') + 1;  // npos + 1 = 0
      if (line > 0 || line_start_) {
        std::string_view lead = before.substr(line);
        while (const std::size_t n = leading_white_space(lead)) lead.remove_prefix(n);
        if (lead.empty()) before = before.substr(0, line);
      }
    }
    emit_text(before);
    advance(begin + inside);
    if (kind == '#') return comment();
    if (kind == '{') return tag(TokenKind::kPrintBegin, TokenKind::kPrintEnd, "}}");
    if (raw_block()) return;
    tag(TokenKind::kBlockBegin, TokenKind::kBlockEnd, "%}");
  }

  void emit_text(std::string_view piece) {
    if (!piece.empty()) add(TokenKind::kText, std::string(piece));
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    require<TemplateError>(end != std::string::npos, "line {} of the template: a comment does not end",
                           line_);
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2);
    after_block(sign);
  }

  // White space behind a block or comment.
  void after_block(char sign) {
    line_start_ = false;
    if (sign == '-') return skip_space();
    if (space_.trim_blocks && sign != '+' && at_ < source_.size() && source_[at_] == '\n') {
      advance(at_ + 1);
      line_start_ = true;
    }
  }
  void skip_space() {
    while (const std::size_t n = leading_white_space(std::string_view(source_).substr(at_))) {
      line_start_ = source_[at_] == '\n';
      advance(at_ + n);
    }
  }

  // {% raw %} … {% endraw %}: text as it stands.
  bool raw_block() {
    std::size_t p = at_;
    const auto word = [&](std::string_view name) {
      while (p < source_.size() && leading_white_space(std::string_view(source_).substr(p)) == 1) ++p;
      if (source_.compare(p, name.size(), name) != 0) return false;
      p += name.size();
      return true;
    };
    if (!word("raw")) return false;
    if (p < source_.size() && (is_name_start(source_[p]) || is_digit(source_[p]))) return false;
    char sign = '\0';
    if (word("-%}"))
      sign = '-';
    else if (word("+%}"))
      sign = '+';
    else if (!word("%}"))
      return false;
    advance(p);
    after_block(sign);
    const std::size_t text_begin = at_;
    for (std::size_t open = source_.find("{%", at_); open != std::string::npos;
         open = source_.find("{%", open + 2)) {
      p = open + 2;
      const char lead = p < source_.size() ? source_[p] : '\0';
      if (lead == '-' || lead == '+') ++p;
      if (!word("endraw")) continue;
      sign = '\0';
      if (word("-%}"))
        sign = '-';
      else if (word("+%}"))
        sign = '+';
      else if (!word("%}"))
        continue;
      std::string_view inner = std::string_view(source_).substr(text_begin, open - text_begin);
      if (lead == '-') {
        while (const std::size_t n = trailing_white_space(inner)) inner.remove_suffix(n);
      } else if (space_.lstrip_blocks && lead != '+') {
        const std::size_t line = inner.rfind('\n') + 1;
        std::string_view space = inner.substr(line);
        while (const std::size_t n = leading_white_space(space)) space.remove_prefix(n);
        if (space.empty() && (line > 0 || line_start_)) inner = inner.substr(0, line);
      }
      emit_text(inner);
      advance(p);
      after_block(sign);
      return true;
    }
    fail<TemplateError>("line {} of the template: 'raw' does not end", line_);
  }

  void tag(TokenKind begin, TokenKind end, std::string_view close) {
    add(begin, "");
    std::string brackets;
    for (;;) {
      while (at_ < source_.size() && leading_white_space(std::string_view(source_).substr(at_)))
        advance(at_ + leading_white_space(std::string_view(source_).substr(at_)));
      require<TemplateError>(at_ < source_.size(), "line {} of the template: a tag does not end", line_);
      if (brackets.empty()) {
        const char sign = source_[at_];
        const std::size_t skip = sign == '-' || (sign == '+' && end == TokenKind::kBlockEnd) ? 1 : 0;
        if (source_.compare(at_ + skip, 2, close) == 0) {
          add(end, "");
          advance(at_ + skip + 2);
          if (end == TokenKind::kBlockEnd) {
            after_block(skip ? sign : '\0');
          } else {
            line_start_ = false;
            if (skip) skip_space();
          }
          return;
        }
      }
      const char c = source_[at_];
      if (is_name_start(c)) {
        name();
      } else if (is_digit(c)) {
        number();
      } else if (c == '"' || c == '\'') {
        quoted(c);
      } else {
        operation(brackets);
      }
    }
  }

  void name() {
    std::size_t end = at_;
    while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) ++end;
    add(TokenKind::kName, source_.substr(at_, end - at_));
    advance(end);
  }

  void number() {
    std::string text;
    bool is_float = false;
    const auto digits = [&] {
      while (at_ < source_.size() && (is_digit(source_[at_]) || (source_[at_] == '_' && !text.empty()))) {
        if (source_[at_] != '_') text += source_[at_];
        ++at_;
      }
    };
    const auto at = [&](std::size_t i) { return at_ + i < source_.size() ? source_[at_ + i] : '\0'; };
    digits();
    if (at(0) == '.' && is_digit(at(1))) {
      is_float = true;
      text += '.';
      ++at_;
      digits();
    }
    const bool sign = at(1) == '+' || at(1) == '-';
    if ((at(0) == 'e' || at(0) == 'E') && is_digit(at(sign ? 2 : 1))) {
      is_float = true;
      text += 'e';
      if (sign) text += at(1);
      at_ += sign ? 2 : 1;
      digits();
    }
    require<TemplateError>(text.size() <= 64, "line {} of the template: a number of {} digits", line_,
                           text.size());
    add(is_float ? TokenKind::kFloat : TokenKind::kInteger, text);
  }

  void quoted(char quote) {
    std::string text;
    const int line = line_;
    std::size_t i = at_ + 1;
    const auto hex = [&](std::size_t count) {
      std::uint32_t code = 0;
      for (std::size_t k = 0; k < count; ++k) {
        const char c = i < source_.size() ? source_[i++] : '\0';
        const int digit = is_digit(c)            ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        require<TemplateError>(digit >= 0, "line {} of the template: an escape that is not a number", line);
        code = code << 4 | static_cast<std::uint32_t>(digit);
      }
      require<TemplateError>(code <= 0x10ffff, "line {} of the template: an escape beyond Unicode", line);
      append_utf8(code >= 0xd800 && code <= 0xdfff ? 0xfffd : code, text);
    };
    while (i < source_.size() && source_[i] != quote) {
      const char c = source_[i++];
      if (c != '\\' || i == source_.size()) {
        text += c;
        continue;
      }
      const char escaped = source_[i++];
      switch (escaped) {
        case 'n':
          text += '\n';
          break;
        case 't':
          text += '\t';
          break;
        case 'r':
          text += '\r';
          break;
        case 'b':
          text += '\b';
          break;
        case 'f':
          text += '\f';
          break;
        case 'v':
          text += '\v';
          break;
        case 'a':
          text += '\a';
          break;
        case '0':
          text += '\0';
          break;
        case 'x':
          hex(2);
          break;
        case 'u':
          hex(4);
          break;
        case 'U':
          hex(8);
          break;
        case '\n':
          break;
        case '\\':
        case '\'':
        case '"':
          text += escaped;
          break;
        default:
          text += '\\', text += escaped;
      }
    }
    require<TemplateError>(i < source_.size(), "line {} of the template: a string does not end", line);
    add(TokenKind::kString, std::move(text));
    advance(i + 1);
  }

  void operation(std::string& brackets) {
    static constexpr std::array<std::string_view, 28> kOperators{
        "==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "<", ">",
        "=",  "(",  ")",  "[",  "]",  "{",  "}", ".", ",", ":", "|", ";", "!", "&"};
    for (const auto op : kOperators) {
      if (source_.compare(at_, op.size(), op) != 0) continue;
      const char c = op[0];
      if (op.size() == 1 && (c == '(' || c == '[' || c == '{'))
        brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
      if (op.size() == 1 && (c == ')' || c == ']' || c == '}')) {
        require<TemplateError>(!brackets.empty() && brackets.back() == c,
                               "line {} of the template: unexpected '{}'", line_, c);
        brackets.pop_back();
      }
      add(TokenKind::kOperator, std::string(op));
      return advance(at_ + op.size());
    }
    fail<TemplateError>("line {} of the template: unexpected '{}'", line_, source_[at_]);
  }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  const WhiteSpace space_;
  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_start_ = true;  // at the template's beginning, or behind a block whose newline was trimmed
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const WhiteSpace& space) {
  return Lexer(source, space).run();
}

}  // namespace stoa::chat
