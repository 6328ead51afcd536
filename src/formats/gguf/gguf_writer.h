// Writes a GGUF file: the header from keys and a list of tensors, then the tensors' bytes in that order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/gguf/value.h"
#include "quant/block_format.h"

namespace stoa::gguf {

inline constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
inline constexpr std::uint32_t kMaxRank = 4;
inline constexpr std::size_t kLongestName = 63;  // of a tensor: GGML refuses longer ones
inline constexpr std::uint64_t kDefaultAlignment = 32;
inline constexpr std::string_view kAlignmentKey = "general.alignment";

inline std::uint64_t padded(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

struct NewTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // outermost first
  const quant::BlockFormat* format = nullptr;

  std::uint64_t bytes() const;
};

// Everything before the tensors' bytes, padded. DataError: a name that is too long or given twice, rows that
// are not whole blocks.
std::string header(std::uint32_t version, const Keys& keys, const std::vector<NewTensor>& tensors,
                   std::uint64_t alignment);

class Writer {
 public:
  // The file appears with commit(). `keys` name the alignment where it is not the default.
  Writer(fs::path path, const Keys& keys, std::vector<NewTensor> tensors,
         std::uint64_t alignment = kDefaultAlignment, std::uint32_t version = 3);

  // The next bytes of the next tensor; InternalError: more than it has.
  void append(std::span<const std::byte> bytes);
  std::uint64_t file_bytes() const { return file_bytes_; }
  void commit();  // InternalError: tensors are missing

 private:
  const std::vector<NewTensor> tensors_;
  const std::uint64_t alignment_;
  AtomicFile file_;
  std::uint64_t file_bytes_ = 0;
  std::size_t tensor_ = 0;
  std::uint64_t written_ = 0;  // of it
};

}  // namespace stoa::gguf
