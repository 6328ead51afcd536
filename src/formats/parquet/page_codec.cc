#include "formats/parquet/page_codec.h"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace stoa::parquet {
namespace {

// Bytes of a compressed page, from the front.
class Compressed {
 public:
  explicit Compressed(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::uint64_t number(std::size_t bytes) {  // little-endian
    std::uint64_t value = 0;
    const std::string_view from = take(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(from[i])) << (8 * i);
    return value;
  }
  std::string_view take(std::uint64_t count) {
    require<DataError>(count <= bytes_.size(), "a compressed page ends too soon");
    const std::string_view out = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return out;
  }

 private:
  std::string_view bytes_;
};

void copy_within(std::uint64_t offset, std::uint64_t length, std::uint64_t bytes, std::string& out) {
  require<DataError>(offset > 0 && offset <= out.size(),
                     "a compressed page copies from before its beginning");
  require<DataError>(length <= bytes - std::min<std::uint64_t>(bytes, out.size()),
                     "a page is longer than its header says");
  if (offset >= length) {
    out.append(out, out.size() - offset, length);
  } else {
    for (std::size_t from = out.size() - offset; length > 0; --length) out += out[from++];  // overlaps
  }
}

void append_literals(std::string_view literals, std::uint64_t bytes, std::string& out) {
  require<DataError>(out.size() + literals.size() <= bytes, "a page is longer than its header says");
  out += literals;
}

// The length, then literals and copies of what is already there (google/snappy, format_description.txt).
void decompress_snappy(std::string_view page, std::uint64_t bytes, std::string& out) {
  Compressed in(page);
  std::uint64_t announced = 0;
  for (int shift = 0;; shift += 7) {
    require<DataError>(shift < 35, "a snappy page with a length beyond 32 bits");
    const std::uint64_t b = in.number(1);
    announced |= (b & 127) << shift;
    if (b < 128) break;
  }
  require<DataError>(announced == bytes, "a snappy page whose length is not that of its header");
  out.reserve(std::min<std::uint64_t>(bytes, 64 * page.size()));  // a copy of 64 bytes takes three
  while (!in.empty()) {
    const std::uint64_t tag = in.number(1);
    switch (tag & 3) {
      case 0: {
        std::uint64_t length = tag >> 2;
        if (length >= 60) length = in.number(length - 59);
        append_literals(in.take(length + 1), bytes, out);
        break;
      }
      case 1: {
        const std::uint64_t low = in.number(1);
        copy_within((tag >> 5) << 8 | low, (tag >> 2 & 7) + 4, bytes, out);
        break;
      }
      default:
        copy_within(in.number((tag & 3) == 2 ? 2 : 4), (tag >> 2) + 1, bytes, out);
    }
  }
}

// Sequences of literals and a copy each; the last has no copy (lz4, doc/lz4_Block_format.md).
void decompress_lz4(std::string_view page, std::uint64_t bytes, std::string& out) {
  Compressed in(page);
  const auto length_of = [&](std::uint64_t nibble) {
    std::uint64_t length = nibble;
    for (std::uint64_t more = nibble == 15 ? 255 : 0; more == 255; length += more) more = in.number(1);
    return length;
  };
  out.reserve(std::min<std::uint64_t>(bytes, 255 * page.size()));
  while (!in.empty()) {
    const std::uint64_t token = in.number(1);
    append_literals(in.take(length_of(token >> 4)), bytes, out);
    if (in.empty()) break;
    const std::uint64_t offset = in.number(2);
    copy_within(offset, length_of(token & 15) + 4, bytes, out);
  }
}

// The codec LZ4 of old: Hadoop's blocks, each the size of its content and then pieces with their sizes before
// them, all big-endian. False where the page is not made of such blocks.
bool decompress_hadoop_lz4(std::string_view page, std::uint64_t bytes, std::string& out) {
  try {
    Compressed in(page);
    const auto size = [&] { return __builtin_bswap32(static_cast<std::uint32_t>(in.number(4))); };
    while (!in.empty()) {
      const std::uint64_t end = out.size() + size();
      require<DataError>(end <= bytes, "a page is longer than its header says");
      while (out.size() < end) {
        std::string piece;
        decompress_lz4(in.take(size()), end - out.size(), piece);
        require<DataError>(!piece.empty(), "an empty piece");
        out += piece;
      }
    }
  } catch (const DataError&) {
    return false;
  }
  return out.size() == bytes;
}

// Calls step(to, room) for pieces of the output, until it has no more: a page cannot announce more than it
// brings.
template <class Step>
void grow(std::uint64_t bytes, std::size_t hint, std::string& out, const Step& step) {
  std::size_t filled = 0;
  std::size_t size = std::min<std::uint64_t>(bytes, std::max<std::size_t>(hint, 1 << 12));
  for (;;) {
    out.resize(size);
    const std::size_t got = step(out.data() + filled, size - filled);
    filled += got;
    if (got == 0 || filled == bytes) break;
    if (filled == size) size = std::min<std::uint64_t>(bytes, 2 * size);
  }
  out.resize(filled);
}

void decompress_gzip(std::string_view page, std::uint64_t bytes, std::string& out) {
  z_stream stream{};
  require<InternalError>(::inflateInit2(&stream, 15 + 32) == Z_OK, "zlib cannot be initialised");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, ::inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(page.data()));
  stream.avail_in = static_cast<uInt>(page.size());
  grow(bytes, 4 * page.size(), out, [&](char* to, std::size_t room) {
    stream.next_out = reinterpret_cast<Bytef*>(to);
    stream.avail_out = static_cast<uInt>(room);
    for (int status = Z_OK;;) {  // a page may be several members
      status = ::inflate(&stream, Z_NO_FLUSH);
      require<DataError>(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR,
                         "a page is no valid gzip data");
      if (status != Z_STREAM_END || stream.avail_in == 0) break;
      ::inflateReset(&stream);
    }
    return room - stream.avail_out;
  });
}

void decompress_zstd(std::string_view page, std::uint64_t bytes, std::string& out) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(::ZSTD_createDStream(),
                                                                             ::ZSTD_freeDStream);
  require<InternalError>(stream != nullptr, "zstd cannot be initialised");
  ZSTD_inBuffer in{page.data(), page.size(), 0};
  grow(bytes, 4 * page.size(), out, [&](char* to, std::size_t room) {
    ZSTD_outBuffer piece{to, room, 0};
    const std::size_t status = ::ZSTD_decompressStream(stream.get(), &piece, &in);
    require<DataError>(!::ZSTD_isError(status), "a page is no valid zstd data");
    return piece.pos;
  });
}

void decompress_brotli(std::string_view page, std::uint64_t bytes, std::string& out) {
  const std::unique_ptr<BrotliDecoderState, void (*)(BrotliDecoderState*)> state(
      ::BrotliDecoderCreateInstance(nullptr, nullptr, nullptr), ::BrotliDecoderDestroyInstance);
  require<InternalError>(state != nullptr, "Brotli cannot be initialised");
  std::size_t left = page.size();
  auto next = reinterpret_cast<const std::uint8_t*>(page.data());
  grow(bytes, 4 * page.size(), out, [&](char* to, std::size_t room) {
    auto at = reinterpret_cast<std::uint8_t*>(to);
    std::size_t free = room;
    const auto result = ::BrotliDecoderDecompressStream(state.get(), &left, &next, &free, &at, nullptr);
    require<DataError>(result != BROTLI_DECODER_RESULT_ERROR, "a page is no valid Brotli data");
    return room - free;
  });
}

}  // namespace

void decompress_page(std::string_view page, Codec codec, std::uint64_t bytes, std::string& out) {
  require<DataError>(bytes <= kLargestPage, "a page of {} bytes; at most {} are read", bytes, kLargestPage);
  out.clear();
  switch (codec) {
    case Codec::kNone:
      out = page;
      break;
    case Codec::kSnappy:
      decompress_snappy(page, bytes, out);
      break;
    case Codec::kGzip:
      decompress_gzip(page, bytes, out);
      break;
    case Codec::kBrotli:
      decompress_brotli(page, bytes, out);
      break;
    case Codec::kZstd:
      decompress_zstd(page, bytes, out);
      break;
    case Codec::kHadoopLz4:
      if (decompress_hadoop_lz4(page, bytes, out)) break;
      out.clear();  // Arrow has written blocks without sizes under the same number
      [[fallthrough]];
    case Codec::kLz4:
      decompress_lz4(page, bytes, out);
      break;
    default:
      fail<DataError>("pages are compressed by codec {}; none, snappy, gzip, Brotli, zstd and LZ4 are read",
                      static_cast<int>(codec));
  }
  require<DataError>(out.size() == bytes, "a page of {} bytes where its header says {}", out.size(), bytes);
}

}  // namespace stoa::parquet
