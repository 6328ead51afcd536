// Calls as Python writes them: [name(key="value", other=[1, None]), …].
#include <cctype>

#include "serve/tools/call_texts.h"

namespace stoa::serve {
namespace {

class PythonCalls {
 public:
  explicit PythonCalls(std::string_view text) : text_(text) {}

  // None: the text is not a list of calls.
  std::optional<std::vector<ToolCall>> read() {
    const bool list = take('[');
    std::vector<ToolCall> calls;
    while (!list || !take(']')) {
      space();
      if (!list && at_ == text_.size()) break;
      auto call = this->call();
      if (!call) return std::nullopt;
      calls.push_back(std::move(*call));
      const bool more = take(',');
      if (list && !more) {
        if (!take(']')) return std::nullopt;
        break;
      }
    }
    space();
    if (at_ != text_.size()) return std::nullopt;
    return calls;
  }

 private:
  static constexpr int kDeepest = 32;

  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(char c) {
    space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view word() {
    space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '.' || text_[at_] == '-'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::optional<ToolCall> call() {
    const std::string name(word());
    if (name.empty() || !take('(')) return std::nullopt;
    Json arguments = Json::object();
    while (!take(')')) {
      const std::string key(word());
      if (key.empty() || !take('=')) return std::nullopt;
      auto value = this->value(0);
      if (!value) return std::nullopt;
      arguments[key] = std::move(*value);
      if (take(',')) continue;
      if (!take(')')) return std::nullopt;
      break;
    }
    return ToolCall{name, arguments.dump(-1, ' ', false, Json::error_handler_t::replace)};
  }
  std::optional<Json> value(int depth) {
    space();
    if (at_ == text_.size() || depth > kDeepest) return std::nullopt;
    const char c = text_[at_];
    if (c == '"' || c == '\'') return text(c);
    if (c == '[' || c == '(') return items(c == '[' ? ']' : ')', depth);
    if (c == '{') return members(depth);
    const std::string literal(number_or_word());
    if (literal == "True" || literal == "true") return Json(true);
    if (literal == "False" || literal == "false") return Json(false);
    if (literal == "None" || literal == "null") return Json(nullptr);
    Json number = Json::parse(literal, nullptr, false);
    if (!number.is_number()) return std::nullopt;
    return number;
  }
  std::string_view number_or_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  std::string_view("+-.").find(text_[at_]) != std::string_view::npos))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::optional<Json> items(char close, int depth) {
    ++at_;
    Json out = Json::array();
    while (!take(close)) {
      auto item = value(depth + 1);
      if (!item) return std::nullopt;
      out.push_back(std::move(*item));
      if (take(',')) continue;
      if (!take(close)) return std::nullopt;
      break;
    }
    return out;
  }
  std::optional<Json> members(int depth) {
    ++at_;
    Json out = Json::object();
    while (!take('}')) {
      const auto key = value(depth + 1);
      if (!key || !key->is_string() || !take(':')) return std::nullopt;
      auto item = value(depth + 1);
      if (!item) return std::nullopt;
      out[key->get<std::string>()] = std::move(*item);
      if (take(',')) continue;
      if (!take('}')) return std::nullopt;
      break;
    }
    return out;
  }
  std::optional<Json> text(char quote) {
    std::string out;
    for (++at_; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == quote) return ++at_, Json(out);
      if (c == '\\') {
        if (++at_ == text_.size()) return std::nullopt;
        c = text_[at_];
        const std::string_view letters = "ntrbf0", meanings("\n\t\r\b\f\0", 6);
        if (c == 'u' || c == 'x') {
          const std::size_t digits = c == 'u' ? 4 : 2;
          const std::string code =
              "\"\\u" + std::string(4 - digits, '0') + std::string(text_.substr(at_ + 1, digits)) + "\"";
          const Json character = Json::parse(code, nullptr, false);
          if (!character.is_string()) return std::nullopt;
          out += character.get<std::string>();
          at_ += digits;
          continue;
        }
        if (const std::size_t n = letters.find(c); n != std::string_view::npos) c = meanings[n];
      }
      out += c;
    }
    return std::nullopt;
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<ToolCall> python_calls(std::string_view text) {
  text = trimmed(text);
  for (const auto& [open, close] :
       {std::pair<std::string_view, std::string_view>{"<|python_start|>", "<|python_end|>"},
        {"<function_calls>", "</function_calls>"}})
    if (text.starts_with(open)) {
      text.remove_prefix(open.size());
      text = text.substr(0, text.find(close));
    }
  return PythonCalls(trimmed(text)).read().value_or(std::vector<ToolCall>());
}

}  // namespace stoa::serve
