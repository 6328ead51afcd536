// Tables of FlatBuffers, in which Arrow writes what its messages hold, read from untrusted bytes: every
// offset is checked before it is followed.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace stoa::arrow {

class FlatTable;

// A vector of a buffer: its elements lie one behind the other.
class FlatVector {
 public:
  FlatVector() = default;
  FlatVector(std::string_view buffer, std::size_t begin, std::size_t count)
      : buffer_(buffer), begin_(begin), count_(count) {}

  std::size_t size() const { return count_; }
  // Element `i` of tables.
  FlatTable table(std::size_t i) const;
  // The 64-bit number at place `member` of element `i`, a structure of `members` such numbers.
  std::int64_t number(std::size_t i, std::size_t member, std::size_t members) const;

 private:
  std::string_view buffer_;
  std::size_t begin_ = 0, count_ = 0;
};

class FlatTable {
 public:
  // The root of a buffer. DataError: it is none.
  explicit FlatTable(std::string_view buffer) : FlatTable(buffer, follow(buffer, 0)) {}
  FlatTable(std::string_view buffer, std::size_t at) : buffer_(buffer), at_(at) {
    const auto back = value_at<std::int32_t>(buffer, at);
    const auto begin = static_cast<std::int64_t>(at) - back;
    require<DataError>(begin >= 0 && begin + 4 <= static_cast<std::int64_t>(buffer.size()),
                       "a table of a message points outside of it");
    fields_ = static_cast<std::size_t>(begin);
    fields_bytes_ = value_at<std::uint16_t>(buffer, fields_);
  }

  // Field `number` of the schema; `otherwise`: it is not written.
  template <class T>
  T number(std::size_t number, T otherwise) const {
    const std::size_t at = field(number);
    return at == 0 ? otherwise : value_at<T>(buffer_, at);
  }
  bool has(std::size_t number) const { return field(number) != 0; }
  FlatTable table(std::size_t number) const {
    const std::size_t at = field(number);
    require<DataError>(at != 0, "a message lacks a table that it needs");
    return {buffer_, follow(buffer_, at)};
  }
  std::string_view text(std::size_t number) const {
    const std::size_t at = field(number);
    if (at == 0) return {};
    const std::size_t begin = follow(buffer_, at);
    const std::size_t length = value_at<std::uint32_t>(buffer_, begin);
    require<DataError>(length <= buffer_.size() - begin - 4, "a text of a message reaches beyond its end");
    return buffer_.substr(begin + 4, length);
  }
  // `bytes`: of an element. Empty: it is not written.
  FlatVector vector(std::size_t number, std::size_t bytes) const {
    const std::size_t at = field(number);
    if (at == 0) return {};
    const std::size_t begin = follow(buffer_, at);
    const std::size_t count = value_at<std::uint32_t>(buffer_, begin);
    require<DataError>(count <= (buffer_.size() - begin - 4) / bytes,
                       "a vector of a message reaches beyond its end");
    return {buffer_, begin + 4, count};
  }

  template <class T>
  static T value_at(std::string_view buffer, std::size_t at) {
    require<DataError>(at <= buffer.size() && sizeof(T) <= buffer.size() - at,
                       "a value of a message lies beyond its end");
    T out;
    std::memcpy(&out, buffer.data() + at, sizeof out);
    return out;
  }
  static std::size_t follow(std::string_view buffer, std::size_t at) {
    const std::size_t to = at + value_at<std::uint32_t>(buffer, at);
    require<DataError>(to + 4 <= buffer.size(), "an offset of a message points beyond its end");
    return to;
  }

 private:
  std::size_t field(std::size_t number) const {
    const std::size_t slot = 4 + 2 * number;
    if (slot + 2 > fields_bytes_) return 0;
    const auto offset = value_at<std::uint16_t>(buffer_, fields_ + slot);
    return offset == 0 ? 0 : at_ + offset;
  }

  std::string_view buffer_;
  std::size_t at_ = 0, fields_ = 0, fields_bytes_ = 0;
};

inline FlatTable FlatVector::table(std::size_t i) const {
  require<DataError>(i < count_, "element {} of a vector of {}", i, count_);
  return {buffer_, FlatTable::follow(buffer_, begin_ + 4 * i)};
}

inline std::int64_t FlatVector::number(std::size_t i, std::size_t member, std::size_t members) const {
  require<DataError>(i < count_, "element {} of a vector of {}", i, count_);
  return FlatTable::value_at<std::int64_t>(buffer_, begin_ + 8 * (members * i + member));
}

}  // namespace stoa::arrow
