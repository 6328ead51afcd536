// Thrift's compact protocol as Parquet uses it: structures of numbered fields, read from untrusted bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace stoa::parquet {

class ThriftReader {
 public:
  enum Type : std::uint8_t {
    kStop,
    kTrue,
    kFalse,
    kByte,
    kI16,
    kI32,
    kI64,
    kDouble,
    kBinary,
    kList,
    kSet,
    kMap,
    kStruct
  };
  struct Field {
    std::int32_t id = 0;
    Type type = kStop;
  };

  explicit ThriftReader(std::string_view bytes) : bytes_(bytes) {}

  std::size_t position() const { return at_; }
  // The whole number of a field of any whole type or of a boolean.
  std::int64_t number(const Field& field);
  std::string_view binary();
  // Calls visit(field) for every field of a structure; visit reads the value or calls skip(field.type).
  template <class Visit>
  void each_field(Visit&& visit) {
    require<DataError>(++depth_ <= kDeepest, "structures nested deeper than {}", kDeepest);
    std::int32_t id = 0;
    for (;;) {
      const auto head = byte();
      Field field;
      field.type = type_of(head & 15);
      if (field.type == kStop) break;
      const std::uint8_t step = head >> 4;
      id = step != 0 ? id + step : static_cast<std::int32_t>(zigzag());
      field.id = id;
      visit(field);
    }
    --depth_;
  }
  // Calls visit() for every element of a list; its type must be `type`.
  template <class Visit>
  void each_element(Type type, Visit&& visit) {
    const auto [count, found] = list_head();
    require<DataError>(found == type || count == 0, "a list of type {} where {} is expected",
                       static_cast<int>(found), static_cast<int>(type));
    for (std::uint64_t i = 0; i < count; ++i) visit();
  }
  void skip(Type type);

 private:
  static constexpr int kDeepest = 32;

  std::uint8_t byte() {
    require<DataError>(at_ < bytes_.size(), "it ends within a structure");
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  static Type type_of(std::uint8_t bits) {
    require<DataError>(bits <= kStruct, "a field of type {}", bits);
    return static_cast<Type>(bits);
  }
  std::uint64_t varint();
  std::int64_t zigzag() {
    const std::uint64_t v = varint();
    return static_cast<std::int64_t>(v >> 1) ^ -static_cast<std::int64_t>(v & 1);
  }
  std::pair<std::uint64_t, Type> list_head();

  std::string_view bytes_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace stoa::parquet
