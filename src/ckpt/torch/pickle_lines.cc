// Values that protocol 0 writes as lines of text.
#include "base/utf8.h"
#include "ckpt/torch/pickle_machine.h"

namespace stoa::ckpt::torch {

PickleMachine::Id PickleMachine::quoted_line() {
  auto line = take_line();
  check(line.size() >= 2 && line.front() == line.back() && (line.front() == '\'' || line.front() == '"'),
        "has a string without quotes");
  line = line.substr(1, line.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      out += line[i];
      continue;
    }
    check(++i < line.size(), "has a string that ends in a backslash");
    switch (line[i]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case '\\':
      case '\'':
      case '"':
        out += line[i];
        break;
      case 'x':
        out += static_cast<char>(hexadecimal(line, i + 1, 2));
        i += 2;
        break;
      default:
        check(false, "has an unknown escape in a string");
    }
  }
  out_.made_.push_back(std::move(out));
  return add_old_string(out_.made_.back());
}

std::uint32_t PickleMachine::hexadecimal(std::string_view text, std::size_t begin, std::size_t digits) const {
  std::uint32_t x = 0;
  check(begin + digits <= text.size(), "has a short escape in a string");
  const char* end = text.data() + begin + digits;
  const auto result = std::from_chars(text.data() + begin, end, x, 16);
  check(result.ec == std::errc() && result.ptr == end, "has an escape that is not a number");
  return x;
}

PickleMachine::Id PickleMachine::escaped_line() {
  const auto line = take_line();
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool escape = line[i] == '\\' && i + 1 < line.size() && (line[i + 1] == 'u' || line[i + 1] == 'U');
    if (!escape) {
      append_utf8(static_cast<unsigned char>(line[i]), out);
      continue;
    }
    const std::size_t digits = line[i + 1] == 'u' ? 4 : 8;
    const auto c = hexadecimal(line, i + 2, digits);
    check(c < 0x110000 && (c < 0xd800 || c > 0xdfff), "has a character that is none");
    append_utf8(c, out);
    i += 1 + digits;
  }
  return add_made_text(ValueKind::kString, std::move(out));
}

PickleMachine::Id PickleMachine::int_line() {
  auto line = take_line();
  if (line == "00") return false_;
  if (line == "01") return true_;
  if (line.ends_with('L')) line.remove_suffix(1);
  std::int64_t x = 0;
  const auto result = std::from_chars(line.data(), line.data() + line.size(), x);
  check(result.ptr == line.data() + line.size() && !line.empty(), "has a line that is not an int");
  return result.ec == std::errc() ? add_int(ValueKind::kInt, x) : add_decimal(line);
}

PickleMachine::Id PickleMachine::float_line() {
  const auto line = take_line();
  double x = 0;
  const auto result = std::from_chars(line.data(), line.data() + line.size(), x);
  check(result.ec == std::errc() && result.ptr == line.data() + line.size(), "has a line that is no float");
  return add_float(x);
}

}  // namespace stoa::ckpt::torch
