// The values of a GGUF file's keys: numbers, texts and arrays of these, with their types as stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoa::gguf {

enum class ValueType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kText = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr std::uint32_t kLastValueType = 12;
std::string_view name_of(ValueType type);  // "u32"
std::size_t bytes_of(ValueType type);      // of a number; 0 for texts and arrays

class Value {
 public:
  static Value u32(std::uint32_t value) { return number(ValueType::kU32, value); }
  static Value u64(std::uint64_t value) { return number(ValueType::kU64, value); }
  static Value f32(float value);
  static Value boolean(bool value) { return number(ValueType::kBool, value ? 1 : 0); }
  static Value text(std::string value);
  static Value texts(std::vector<std::string> values);
  static Value f32s(const std::vector<float>& values);
  static Value i32s(const std::vector<std::int32_t>& values);
  static Value bools(const std::vector<bool>& values);
  // `bits`: of a number of that type, as stored.
  static Value number(ValueType type, std::uint64_t bits);
  static Value numbers(ValueType element, std::vector<std::uint64_t> bits);

  ValueType type() const { return type_; }
  ValueType element() const { return element_; }  // of an array
  bool is_array() const { return type_ == ValueType::kArray; }
  std::size_t size() const;  // of an array; else 1

  // None where the value is of another kind: no conversion changes a value.
  std::optional<std::int64_t> integer(std::size_t index = 0) const;  // also of an element
  std::optional<double> real(std::size_t index = 0) const;           // integers, too
  std::optional<bool> flag(std::size_t index = 0) const;
  const std::string* text_at(std::size_t index = 0) const;  // nullptr: no text
  std::uint64_t bits(std::size_t index = 0) const { return bits_.at(index); }

  // "llama", "32", "[5, 5, 15, …] (30)": texts and arrays cut to about `most` characters.
  std::string shown(std::size_t most = 60) const;

 private:
  ValueType scalar() const { return is_array() ? element_ : type_; }

  ValueType type_ = ValueType::kU32, element_ = ValueType::kU32;
  std::vector<std::uint64_t> bits_;  // numbers
  std::vector<std::string> texts_;
};

using Keys = std::vector<std::pair<std::string, Value>>;  // in the order of the file

}  // namespace stoa::gguf
