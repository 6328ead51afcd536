// How pages of Parquet files are compressed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stoa::parquet {

// Numbers of parquet.thrift's CompressionCodec.
enum class Codec : std::int32_t { kNone, kSnappy, kGzip, kLzo, kBrotli, kHadoopLz4, kZstd, kLz4 };

inline constexpr std::uint64_t kLargestPage = std::uint64_t{1} << 30;

// Sets `out` to the `bytes` bytes that `page` stands for; memory grows with what is really there. DataError:
// corrupt data, another size, a codec that is not read (LZO).
void decompress_page(std::string_view page, Codec codec, std::uint64_t bytes, std::string& out);

}  // namespace stoa::parquet
