// Megatron's `.idx` file (megatron/core/datasets/indexed_dataset.py), little endian, no alignment padding:
//   0 "MMIDIDX\0\0" | 9 u64 version 1 | 17 u8 dtype | 18 u64 S sequences | 26 u64 D = documents + 1 |
//   34 i32[S] lengths | i64[S] byte offsets in .bin | i64[D] document indices | i8[S] modes (multimodal files
//   only)
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "data/token_dtype.h"

namespace stoa::data {

// View of validated bytes; the memory belongs to the caller.
class IdxView {
 public:
  IdxView() = default;
  // Checks everything that a reader relies on, so that no later access can leave the bytes: header, counts
  // against the file size, lengths and offsets against `bin_bytes`, order of document indices. DataError
  // names `name` and the fault.
  IdxView(std::span<const std::byte> bytes, std::uint64_t bin_bytes, const std::string& name);

  TokenDtype dtype() const { return dtype_; }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t longest() const { return longest_; }

  std::int32_t length(std::int64_t sequence) const { return read<std::int32_t>(lengths_, sequence); }
  std::int64_t offset(std::int64_t sequence) const { return read<std::int64_t>(offsets_, sequence); }
  // First sequence of document `i`; i = documents() gives sequences().
  std::int64_t document_start(std::int64_t i) const { return read<std::int64_t>(starts_, i); }

 private:
  template <class T>
  static T read(const std::byte* base, std::int64_t i) {
    T value;
    std::memcpy(&value, base + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
  }

  const std::byte *lengths_ = nullptr, *offsets_ = nullptr, *starts_ = nullptr;
  TokenDtype dtype_ = TokenDtype::kUint16;
  std::int64_t sequences_ = 0, documents_ = 0, tokens_ = 0, longest_ = 0;
};

inline constexpr std::string_view kIdxMagic{"MMIDIDX\0\0", 9};
inline constexpr std::size_t kIdxHeaderBytes = 34;

}  // namespace stoa::data
