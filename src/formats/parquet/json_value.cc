#include "formats/parquet/json_value.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/escape.h"
#include "base/half.h"

namespace stoa::parquet {
namespace {

void append_base64(std::string_view bytes, std::string& out) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < count; ++k)
      word |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i + k])) << (16 - 8 * k);
    for (std::size_t k = 0; k < 4; ++k) out += k <= count ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
}

void append_real(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  const std::string digits = fmt::format("{}", value);
  out += digits;
  if (digits.find_first_of(".e") == digits.npos) out += ".0";  // it is no whole number for who reads it
}

// The number whose digits, without the point, are the big-endian two's complement `bytes`.
void append_decimal(std::string_view bytes, std::int32_t digits, std::string& out) {
  constexpr std::size_t kMostBytes = 32;
  require<DataError>(!bytes.empty() && bytes.size() <= kMostBytes, "a decimal of {} bytes", bytes.size());
  const bool negative = (static_cast<unsigned char>(bytes.front()) & 128) != 0;
  const std::size_t words = (bytes.size() + 3) / 4;
  std::array<std::uint32_t, kMostBytes / 4> magnitude{};  // the lowest word first
  std::uint64_t carry = negative ? 1 : 0;
  for (std::size_t w = 0; w < words; ++w) {
    std::uint32_t word = 0;
    for (std::size_t b = 0; b < 4; ++b) {
      const std::size_t from_end = 4 * w + b;
      const std::uint32_t sign = negative ? 255 : 0;
      word |=
          (from_end < bytes.size() ? static_cast<unsigned char>(bytes[bytes.size() - 1 - from_end]) : sign)
          << (8 * b);
    }
    carry += negative ? ~word : word;
    magnitude[w] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  std::string text;
  for (std::size_t top = words;;) {
    while (top > 0 && magnitude[top - 1] == 0) --top;
    if (top == 0) break;
    std::uint64_t rest = 0;
    for (std::size_t w = top; w-- > 0;) {
      rest = rest << 32 | magnitude[w];
      magnitude[w] = static_cast<std::uint32_t>(rest / 10);
      rest %= 10;
    }
    text += static_cast<char>('0' + rest);
  }
  const auto behind = static_cast<std::size_t>(digits);
  if (text.size() <= behind) text.append(behind + 1 - text.size(), '0');
  if (negative) out += '-';
  for (std::size_t i = text.size(); i-- > 0;) {
    out += text[i];
    if (i == behind && i > 0) out += '.';
  }
}

void append_decimal(std::int64_t value, std::int32_t digits, std::string& out) {
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (56 - 8 * i));
  append_decimal(std::string_view(bytes, 8), digits, out);
}

std::int64_t floor_division(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

void append_date(std::int64_t days, std::string& out) {
  // Beyond what a calendar of 16-bit years knows, the number of days stands for the date.
  if (days < -12'000'000 || days > 11'000'000) {
    out += fmt::format("{} days after 1970-01-01", days);
    return;
  }
  const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days{days}}};
  out += fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

void append_time_of_day(std::int64_t units, std::int64_t per_second, int digits, std::string& out) {
  const std::int64_t seconds = units / per_second;
  out += fmt::format("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (digits > 0 && units % per_second != 0) out += fmt::format(".{:0{}}", units % per_second, digits);
}

std::int64_t power_of_ten(int digits) {
  std::int64_t out = 1;
  for (int i = 0; i < digits; ++i) out *= 10;
  return out;
}

void append_timestamp(std::int64_t value, int digits, std::string& out) {
  const std::int64_t per_second = power_of_ten(digits), per_day = 86'400 * per_second;
  const std::int64_t days = floor_division(value, per_day);
  append_date(days, out);
  out += 'T';
  const auto rest = static_cast<std::uint64_t>(value) -
                    static_cast<std::uint64_t>(days) * static_cast<std::uint64_t>(per_day);
  append_time_of_day(static_cast<std::int64_t>(rest), per_second, digits, out);
}

void append_quoted(const auto& append, std::string& out) {
  out += '"';
  append();
  out += '"';
}

void append_bytes(std::string_view bytes, const Node& leaf, std::string& out) {
  switch (leaf.meaning) {
    case Meaning::kDecimal:
      return append_decimal(bytes, leaf.digits, out);
    case Meaning::kUuid:
      if (bytes.size() != 16) break;
      return append_quoted(
          [&] {
            for (std::size_t i = 0; i < 16; ++i) {
              if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
              out += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
            }
          },
          out);
    case Meaning::kHalf: {
      if (bytes.size() != 2) break;
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data(), sizeof bits);
      return append_real(static_cast<double>(static_cast<float>(std::bit_cast<f16>(bits))), out);
    }
    default:
      break;
  }
  // A text with wrong bytes makes a line of no valid JSON, which costs this row alone.
  if (leaf.meaning == Meaning::kText || simdjson::validate_utf8(bytes.data(), bytes.size()))
    return append_json_string(bytes, out);
  append_quoted([&] { append_base64(bytes, out); }, out);
}

}  // namespace

void append_json_value(const Value& value, const Node& leaf, std::string& out) {
  switch (leaf.type) {
    case Physical::kBoolean:
      out += value.integer != 0 ? "true" : "false";
      return;
    case Physical::kFloat:
    case Physical::kDouble:
      return append_real(value.real, out);
    case Physical::kInt96:
      return append_quoted([&] { append_timestamp(value.integer, 9, out); }, out);
    case Physical::kBytes:
    case Physical::kFixedBytes:
      return append_bytes(value.bytes, leaf, out);
    case Physical::kInt32:
    case Physical::kInt64:
      break;
  }
  switch (leaf.meaning) {
    case Meaning::kDecimal:
      return append_decimal(value.integer, leaf.digits, out);
    case Meaning::kDate:
      return append_quoted([&] { append_date(value.integer, out); }, out);
    case Meaning::kTime:
      if (value.integer < 0) break;
      return append_quoted(
          [&] { append_time_of_day(value.integer, power_of_ten(leaf.digits), leaf.digits, out); }, out);
    case Meaning::kTimestamp:
      return append_quoted([&] { append_timestamp(value.integer, leaf.digits, out); }, out);
    case Meaning::kUnsigned:
      out += leaf.type == Physical::kInt32 ? fmt::format("{}", static_cast<std::uint32_t>(value.integer))
                                           : fmt::format("{}", static_cast<std::uint64_t>(value.integer));
      return;
    default:
      break;
  }
  out += fmt::format("{}", value.integer);
}

}  // namespace stoa::parquet
