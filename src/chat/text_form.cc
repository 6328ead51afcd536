// How values are written: str(), repr() and json.dumps() of Python.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/escape.h"
#include "chat/syntax.h"

namespace stoa::chat {
namespace {

// Python's repr: shortest digits that read back, exponents below -4 and from 16 on.
std::string float_text(double value, bool json) {
  if (std::isnan(value)) return json ? "NaN" : "nan";
  if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + (json ? "Infinity" : "inf");
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string scientific(buffer, end);
  const std::size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent >= 16)
    return fmt::format("{}e{}{:02}", scientific.substr(0, e), exponent < 0 ? '-' : '+', std::abs(exponent));
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string out(buffer, fixed);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

void append_repr(const Value& value, std::string& out, Budget& budget) {
  const std::size_t before = out.size();
  budget.pay();
  if (value.is_string()) {
    const std::string& text = value.as_string();
    const bool doubled = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
    const char quote = doubled ? '"' : '\'';
    out += quote + escape_controls(text, std::string{quote, '\\'}) + quote;
    budget.pay_bytes(out.size() - before);
  } else if (value.is_list()) {
    out += value.is_tuple() ? '(' : '[';
    for (std::size_t i = 0; i < value.as_list().size(); ++i) {
      if (i > 0) out += ", ";
      append_repr(value.as_list()[i], out, budget);
    }
    if (value.is_tuple() && value.as_list().size() == 1) out += ',';
    out += value.is_tuple() ? ')' : ']';
  } else if (value.is_dict()) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : value.as_dict()) {
      if (!std::exchange(first, false)) out += ", ";
      append_repr(Value(key), out, budget);
      out += ": ";
      append_repr(item, out, budget);
    }
    out += '}';
  } else if (value.is_undefined()) {
    out += "Undefined";
  } else {
    out += to_string(value, budget);
  }
}

void append_json_string(std::string_view text, bool ascii, std::string& out) {
  out += '"';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto u = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        continue;
      case '\\':
        out += "\\\\";
        continue;
      case '\n':
        out += "\\n";
        continue;
      case '\r':
        out += "\\r";
        continue;
      case '\t':
        out += "\\t";
        continue;
      case '\b':
        out += "\\b";
        continue;
      case '\f':
        out += "\\f";
        continue;
      default:
        break;
    }
    if (u < 0x20) {
      out += fmt::format("\\u{:04x}", u);
    } else if (ascii && u >= 0x80) {
      const std::size_t length = u < 0xe0 ? 2 : u < 0xf0 ? 3 : 4;
      std::uint32_t code = u & (0xffU >> (length + 1));
      for (std::size_t k = 1; k < length && i + 1 < text.size(); ++k)
        code = code << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f);
      if (code < 0x10000)
        out += fmt::format("\\u{:04x}", code);
      else
        out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((code - 0x10000) >> 10),
                           0xdc00 + ((code - 0x10000) & 0x3ff));
    } else {
      out += c;
    }
  }
  out += '"';
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget)
      : style_(style),
        budget_(budget),
        item_(style.item_separator.value_or(style.indent ? "," : ", ")),
        key_(style.key_separator.value_or(": ")) {}

  void write(const Value& value, int level) {
    const std::size_t before = out.size();
    budget_.pay();
    if (value.is_none()) {
      out += "null";
    } else if (value.is_bool()) {
      out += value.as_bool() ? "true" : "false";
    } else if (value.is_int()) {
      out += fmt::format("{}", value.as_int());
    } else if (value.is_float()) {
      out += float_text(value.as_double(), true);
    } else if (value.is_string()) {
      append_json_string(value.as_string(), style_.ascii, out);
      budget_.pay_bytes(out.size() - before);
    } else if (value.is_list()) {
      bracket('[', ']', value.as_list().size(), level,
              [&](std::size_t i) { write(value.as_list()[i], level + 1); });
    } else if (value.is_dict()) {
      std::vector<const Entries::value_type*> entries;
      for (const auto& entry : value.as_dict()) entries.push_back(&entry);
      if (style_.sort_keys)
        std::sort(entries.begin(), entries.end(), [](auto a, auto b) { return a->first < b->first; });
      bracket('{', '}', entries.size(), level, [&](std::size_t i) {
        append_json_string(entries[i]->first, style_.ascii, out);
        out += key_;
        budget_.pay_bytes(entries[i]->first.size());
        write(entries[i]->second, level + 1);
      });
    } else {
      fail<TemplateError>("a value of type '{}' has no JSON form", value.type_name());
    }
  }
  std::string out;

 private:
  template <class Each>
  void bracket(char open, char close, std::size_t count, int level, Each&& each) {
    out += open;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) out += item_;
      new_line(level + 1);
      each(i);
    }
    if (count > 0) new_line(level);
    out += close;
  }
  void new_line(int level) {
    if (!style_.indent) return;
    const std::size_t spaces =
        static_cast<std::size_t>(std::max(0, *style_.indent)) * static_cast<std::size_t>(level);
    budget_.pay_bytes(spaces);
    out += '\n';
    out.append(spaces, ' ');
  }

  const JsonStyle& style_;
  Budget& budget_;
  const std::string item_, key_;
};

}  // namespace

std::string to_string(const Value& value, Budget& budget) {
  if (value.is_string()) {
    budget.pay_bytes(value.as_string().size());
    return value.as_string();
  }
  if (value.is_undefined()) return "";
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  if (value.is_int()) return fmt::format("{}", value.as_int());
  if (value.is_float()) return float_text(value.as_double(), false);
  if (value.is_list() || value.is_dict()) return repr(value, budget);
  if (const auto* macro = value.as_macro())
    return fmt::format("<Macro {}>", repr(Value(macro->node->text), budget));
  return fmt::format("<{}>", value.type_name());
}

std::string repr(const Value& value, Budget& budget) {
  std::string out;
  append_repr(value, out, budget);
  return out;
}

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  require<TemplateError>(style.indent.value_or(0) <= 64, "an indent of {} is too wide",
                         style.indent.value_or(0));
  JsonWriter writer(style, budget);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace stoa::chat
