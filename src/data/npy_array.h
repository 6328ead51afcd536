// Integer arrays in numpy's .npy form (version 1.0): in memory while they are built, mapped when they come
// from a cache.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace stoa::data {

enum class NpyType { kInt16, kInt32, kInt64, kUint32 };

// Read-only, one dimension [rows] or two [rows, 2]. Copies share the memory.
class NpyArray {
 public:
  NpyArray() = default;

  template <class T>
  static NpyArray from(std::vector<T> values, std::int64_t columns = 1);

  // Maps a file written by save() or numpy.save; DataError when it is not a well-formed array of these types.
  static NpyArray load(const fs::path& path);
  // Byte for byte what numpy.save writes; appears complete or not at all.
  void save(const fs::path& path) const;

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  NpyType type() const { return type_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Element `column` of row `row`; not bounds-checked beyond what callers guarantee.
  std::int64_t at(std::int64_t row, std::int64_t column = 0) const {
    const std::int64_t i = row * columns_ + column;
    switch (type_) {
      case NpyType::kInt16:
        return read<std::int16_t>(i);
      case NpyType::kInt32:
        return read<std::int32_t>(i);
      case NpyType::kUint32:
        return read<std::uint32_t>(i);
      case NpyType::kInt64:
        break;
    }
    return read<std::int64_t>(i);
  }

 private:
  template <class T>
  std::int64_t read(std::int64_t i) const {
    T value;
    std::memcpy(&value, data_ + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return static_cast<std::int64_t>(value);
  }

  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::int64_t rows_ = 0, columns_ = 1;
  NpyType type_ = NpyType::kInt64;
};

template <class T>
NpyArray NpyArray::from(std::vector<T> values, std::int64_t columns) {
  static_assert(std::is_integral_v<T>);
  NpyArray array;
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  array.data_ = reinterpret_cast<const std::byte*>(owner->data());
  array.size_ = owner->size() * sizeof(T);
  array.rows_ = static_cast<std::int64_t>(owner->size()) / columns;
  array.columns_ = columns;
  array.type_ = std::is_unsigned_v<T> ? NpyType::kUint32
                : sizeof(T) == 2      ? NpyType::kInt16
                : sizeof(T) == 4      ? NpyType::kInt32
                                      : NpyType::kInt64;
  array.owner_ = std::move(owner);
  return array;
}

}  // namespace stoa::data
