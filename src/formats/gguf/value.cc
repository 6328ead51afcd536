#include "formats/gguf/value.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <limits>

#include "base/escape.h"

namespace stoa::gguf {
namespace {

constexpr std::array<std::string_view, kLastValueType + 1> kTypeNames{
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "text", "array", "u64", "i64", "f64"};
constexpr std::array<std::size_t, kLastValueType + 1> kTypeBytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

}  // namespace

std::string_view name_of(ValueType type) { return kTypeNames[static_cast<std::size_t>(type)]; }
std::size_t bytes_of(ValueType type) { return kTypeBytes[static_cast<std::size_t>(type)]; }

Value Value::number(ValueType type, std::uint64_t bits) {
  Value out;
  out.type_ = type;
  out.bits_ = {bits};
  return out;
}

Value Value::numbers(ValueType element, std::vector<std::uint64_t> bits) {
  Value out;
  out.type_ = ValueType::kArray;
  out.element_ = element;
  out.bits_ = std::move(bits);
  return out;
}

Value Value::f32(float value) { return number(ValueType::kF32, std::bit_cast<std::uint32_t>(value)); }

Value Value::text(std::string value) {
  Value out;
  out.type_ = ValueType::kText;
  out.texts_.push_back(std::move(value));
  return out;
}

Value Value::texts(std::vector<std::string> values) {
  Value out;
  out.type_ = ValueType::kArray;
  out.element_ = ValueType::kText;
  out.texts_ = std::move(values);
  return out;
}

Value Value::f32s(const std::vector<float>& values) {
  std::vector<std::uint64_t> bits;
  for (const float x : values) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return numbers(ValueType::kF32, std::move(bits));
}

Value Value::i32s(const std::vector<std::int32_t>& values) {
  std::vector<std::uint64_t> bits;
  for (const std::int32_t x : values) bits.push_back(static_cast<std::uint32_t>(x));
  return numbers(ValueType::kI32, std::move(bits));
}

Value Value::bools(const std::vector<bool>& values) {
  return numbers(ValueType::kBool, {values.begin(), values.end()});
}

std::size_t Value::size() const { return scalar() == ValueType::kText ? texts_.size() : bits_.size(); }

std::optional<std::int64_t> Value::integer(std::size_t index) const {
  if (index >= bits_.size()) return std::nullopt;
  const std::uint64_t bits = bits_[index];
  switch (scalar()) {
    case ValueType::kU8:
    case ValueType::kU16:
    case ValueType::kU32:
      return static_cast<std::int64_t>(bits);
    case ValueType::kI8:
      return static_cast<std::int8_t>(bits);
    case ValueType::kI16:
      return static_cast<std::int16_t>(bits);
    case ValueType::kI32:
      return static_cast<std::int32_t>(bits);
    case ValueType::kI64:
      return static_cast<std::int64_t>(bits);
    case ValueType::kU64:
      if (bits > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return static_cast<std::int64_t>(bits);
    default:
      return std::nullopt;
  }
}

std::optional<double> Value::real(std::size_t index) const {
  if (index >= bits_.size()) return std::nullopt;
  if (scalar() == ValueType::kF32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits_[index]));
  if (scalar() == ValueType::kF64) return std::bit_cast<double>(bits_[index]);
  if (const auto whole = integer(index)) return static_cast<double>(*whole);
  return std::nullopt;
}

std::optional<bool> Value::flag(std::size_t index) const {
  if (scalar() != ValueType::kBool || index >= bits_.size()) return std::nullopt;
  return bits_[index] != 0;
}

const std::string* Value::text_at(std::size_t index) const {
  return scalar() == ValueType::kText && index < texts_.size() ? &texts_[index] : nullptr;
}

std::string Value::shown(std::size_t most) const {
  const auto one = [&](std::size_t i) -> std::string {
    if (const auto* text = text_at(i))
      return text->size() > most ? escape_controls(text->substr(0, most)) + "…" : escape_controls(*text);
    if (const auto whole = integer(i)) return std::to_string(*whole);
    if (const auto on = flag(i)) return *on ? "true" : "false";
    if (const auto x = real(i))
      return scalar() == ValueType::kF32 ? fmt::format("{}", static_cast<float>(*x)) : fmt::format("{}", *x);
    return std::to_string(bits_.at(i));  // beyond 63 bits
  };
  if (!is_array()) return one(0);
  std::string out = "[";
  std::size_t i = 0;
  for (; i < size() && out.size() < most; ++i) out += (i ? ", " : "") + one(i);
  return out + (i < size() ? fmt::format(", …] ({})", size()) : "]");
}

}  // namespace stoa::gguf
