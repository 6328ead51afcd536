// Bytes of a plain, .gz, .bz2 or .zst file, or rows of a .parquet or .arrow file as JSON lines, in bounded
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/file.h"

namespace stoa::data {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `bytes` (> 0) further bytes of content; 0 at the end. IoError when the file cannot be read,
  // DataError when compressed data is invalid, ends too soon or grows as no text does.
  virtual std::size_t read(char* to, std::size_t bytes) = 0;
  virtual std::uint64_t position()
      const = 0;  // bytes of the file consumed so far (compressed ones), for progress
};

// Compressed data that has grown to more than kFreeGrowth bytes must not be more than kMostGrowth times its
// size.
inline constexpr std::uint64_t kFreeGrowth = std::uint64_t{64} << 20, kMostGrowth = 800;

enum class Compression { kNone, kGzip, kBzip2, kZstd };
Compression compression_of(const fs::path& path);  // by extension
std::unique_ptr<ByteSource> open_bytes(const fs::path& path);

}  // namespace stoa::data
