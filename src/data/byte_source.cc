#include "data/byte_source.h"

#include <bzlib.h>
#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/file_names.h"
#include "formats/arrow/row_reader.h"
#include "formats/parquet/row_reader.h"

namespace stoa::data {
namespace {

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(fs::path path)
      : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    require<IoError>(fd_ >= 0, "cannot read '{}': {}", path_.string(), std::strerror(errno));
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  ~PlainSource() override { ::close(fd_); }
  PlainSource(const PlainSource&) = delete;
  PlainSource& operator=(const PlainSource&) = delete;

  std::size_t read(char* to, std::size_t bytes) override {
    for (;;) {
      const ssize_t n = ::read(fd_, to, bytes);
      if (n < 0 && errno == EINTR) continue;
      require<IoError>(n >= 0, "cannot read '{}': {}", path_.string(), std::strerror(errno));
      position_ += static_cast<std::uint64_t>(n);
      return static_cast<std::size_t>(n);
    }
  }
  std::uint64_t position() const override { return position_; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  int fd_;
  std::uint64_t position_ = 0;
};

// Compressed input, a buffer at a time.
class CompressedInput {
 public:
  explicit CompressedInput(const fs::path& path) : source_(path), buffer_(1 << 17) {}
  // False at the end of the file.
  bool refill() {
    begin_ = 0;
    end_ = source_.read(buffer_.data(), buffer_.size());
    return end_ > 0;
  }
  char* data() { return buffer_.data() + begin_; }
  std::size_t size() const { return end_ - begin_; }
  void consume(std::size_t bytes) { begin_ += bytes; }
  std::uint64_t position() const { return source_.position() - size(); }
  std::string name() const { return source_.path().string(); }

 private:
  PlainSource source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

// After a DataError a further read continues with the next member: web archives have one for each record.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(const fs::path& path) : input_(path) {
    require<InternalError>(::inflateInit2(&stream_, 15 + 16) == Z_OK, "zlib cannot be initialised");
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(char* to, std::size_t bytes) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(bytes, 1u << 30));
    const uInt wanted = stream_.avail_out;
    if (is_lost_ && !find_member()) return 0;
    while (stream_.avail_out == wanted) {
      if (input_.size() == 0 && !input_.refill()) {
        require<DataError>(between_members_, "'{}' is truncated: the gzip data ends too soon", input_.name());
        break;
      }
      if (between_members_ && started_ && *input_.data() == 0) {  // padding with zeros, as tapes leave it
        input_.consume(1);
        continue;
      }
      between_members_ = false;
      started_ = true;
      stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
      stream_.avail_in = static_cast<uInt>(input_.size());
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      input_.consume(input_.size() - stream_.avail_in);
      if (status == Z_STREAM_END) {
        between_members_ = true;
        ::inflateReset(&stream_);
      } else {
        is_lost_ = status != Z_OK && status != Z_BUF_ERROR;
        require<DataError>(!is_lost_, "'{}' is not valid gzip data near byte {}: {}", input_.name(),
                           input_.position(), stream_.msg ? stream_.msg : "corrupt");
      }
    }
    return wanted - stream_.avail_out;
  }
  std::uint64_t position() const override { return input_.position(); }

 private:
  bool find_member() {
    constexpr std::string_view kBegin = "\x1f\x8b\x08";
    ::inflateReset(&stream_);
    between_members_ = true;
    while (is_lost_) {
      const std::string_view rest(input_.data(), input_.size());
      const std::size_t at = rest.find(kBegin);
      is_lost_ = at == rest.npos;
      input_.consume(is_lost_ ? rest.size() : at);
      if (is_lost_ && !input_.refill()) return false;
    }
    return true;
  }

  CompressedInput input_;
  z_stream stream_{};
  bool started_ = false, between_members_ = false, is_lost_ = false;
};

// Any number of streams one after another, as Wikipedia's dumps have them.
class Bzip2Source final : public ByteSource {
 public:
  explicit Bzip2Source(const fs::path& path) : input_(path) {}
  ~Bzip2Source() override {
    if (open_) ::BZ2_bzDecompressEnd(&stream_);
  }
  Bzip2Source(const Bzip2Source&) = delete;
  Bzip2Source& operator=(const Bzip2Source&) = delete;

  std::size_t read(char* to, std::size_t bytes) override {
    const auto wanted = static_cast<unsigned>(std::min<std::size_t>(bytes, 1u << 30));
    stream_.next_out = to;
    stream_.avail_out = wanted;
    while (stream_.avail_out == wanted) {
      if (input_.size() == 0 && !input_.refill()) {
        require<DataError>(!open_ && started_, "'{}' is truncated: the bzip2 data ends too soon",
                           input_.name());
        break;
      }
      if (!open_) {
        require<InternalError>(::BZ2_bzDecompressInit(&stream_, 0, 0) == BZ_OK,
                               "bzip2 cannot be initialised");
        open_ = started_ = true;
      }
      stream_.next_in = input_.data();
      stream_.avail_in = static_cast<unsigned>(input_.size());
      const int status = ::BZ2_bzDecompress(&stream_);
      input_.consume(input_.size() - stream_.avail_in);
      if (status == BZ_STREAM_END) {
        ::BZ2_bzDecompressEnd(&stream_);
        open_ = false;
      } else {
        require<DataError>(status == BZ_OK, "'{}' is not valid bzip2 data near byte {}", input_.name(),
                           input_.position());
      }
    }
    return wanted - stream_.avail_out;
  }
  std::uint64_t position() const override { return input_.position(); }

 private:
  CompressedInput input_;
  bz_stream stream_{};
  bool open_ = false, started_ = false;
};

class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(const fs::path& path) : input_(path), stream_(::ZSTD_createDStream()) {
    require<InternalError>(stream_ != nullptr, "zstd cannot be initialised");
    // What `zstd --long=31` writes: published dumps look that far back.
    ::ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kWidestWindow);
  }
  ~ZstdSource() override { ::ZSTD_freeDStream(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  std::size_t read(char* to, std::size_t bytes) override {
    if (!started_) load_dictionary();
    ZSTD_outBuffer out{to, bytes, 0};
    while (out.pos == 0) {
      if (input_.size() == 0 && !input_.refill()) {
        // Output may still wait inside the decoder when the input is used up.
        ZSTD_inBuffer none{nullptr, 0, 0};
        if (!frame_complete_ && started_) ::ZSTD_decompressStream(stream_, &out, &none);
        require<DataError>(out.pos > 0 || (frame_complete_ && started_),
                           "'{}' is truncated: the zstd data ends too soon", input_.name());
        break;
      }
      started_ = true;
      ZSTD_inBuffer in{input_.data(), input_.size(), 0};
      const std::size_t status = ::ZSTD_decompressStream(stream_, &out, &in);
      require<DataError>(!::ZSTD_isError(status), "'{}' is not valid zstd data near byte {}: {}",
                         input_.name(), input_.position(), ::ZSTD_getErrorName(status));
      input_.consume(in.pos);
      frame_complete_ = status == 0;
    }
    return out.pos;
  }
  std::uint64_t position() const override { return input_.position(); }

 private:
  static constexpr std::size_t kLargestDictionary = std::size_t{64} << 20;

  // Web archives begin with a frame for the dictionary of all others, which may itself be compressed
  // (iipc.github.io/warc-specifications, WARC compression with Zstandard).
  void load_dictionary() {
    constexpr std::string_view kMark = "\x5d\x2a\x4d\x18", kZstd = "\x28\xb5\x2f\xfd";
    if (!input_.refill() || !std::string_view(input_.data(), input_.size()).starts_with(kMark)) return;
    input_.consume(kMark.size());
    const std::string head = take(sizeof(std::uint32_t));
    std::uint32_t size = 0;
    std::memcpy(&size, head.data(), sizeof size);
    require<DataError>(size <= kLargestDictionary, "'{}' has a dictionary of {} bytes", input_.name(), size);
    std::string dictionary = take(size);
    if (dictionary.starts_with(kZstd)) dictionary = decompress(dictionary);
    require<DataError>(
        !::ZSTD_isError(::ZSTD_DCtx_loadDictionary(stream_, dictionary.data(), dictionary.size())),
        "'{}' has a dictionary that zstd does not take", input_.name());
  }
  std::string decompress(std::string_view frame) {
    std::string raw;
    ZSTD_inBuffer in{frame.data(), frame.size(), 0};
    for (std::size_t status = 1; status != 0;) {
      const std::size_t had = raw.size();
      raw.resize(had + (1 << 18));
      ZSTD_outBuffer out{raw.data() + had, raw.size() - had, 0};
      status = ::ZSTD_decompressStream(stream_, &out, &in);
      raw.resize(had + out.pos);
      require<DataError>(
          !::ZSTD_isError(status) && (status == 0 || out.pos > 0) && raw.size() <= kLargestDictionary,
          "'{}' has a dictionary that is not valid zstd, or is too large", input_.name());
    }
    ::ZSTD_DCtx_reset(stream_, ZSTD_reset_session_only);
    return raw;
  }
  std::string take(std::size_t bytes) {
    std::string out;
    while (out.size() < bytes) {
      require<DataError>(input_.size() > 0 || input_.refill(), "'{}' is truncated: it ends in its dictionary",
                         input_.name());
      const std::size_t count = std::min(bytes - out.size(), input_.size());
      out.append(input_.data(), count);
      input_.consume(count);
    }
    return out;
  }

  static constexpr int kWidestWindow = sizeof(void*) == 8 ? 31 : 30;

  CompressedInput input_;
  ZSTD_DStream* stream_;
  bool started_ = false, frame_complete_ = false;
};

// Ends what a small file would fill a disk with.
class GrowthLimit final : public ByteSource {
 public:
  GrowthLimit(std::unique_ptr<ByteSource> source, fs::path path)
      : source_(std::move(source)), path_(std::move(path)) {}

  std::size_t read(char* to, std::size_t bytes) override {
    const std::size_t n = source_->read(to, bytes);
    out_ += n;
    require<DataError>(out_ <= kFreeGrowth || out_ / kMostGrowth <= source_->position(),
                       "'{}' decompresses to more than {} times its size near byte {}: not text, and refused",
                       path_.string(), kMostGrowth, source_->position());
    return n;
  }
  std::uint64_t position() const override { return source_->position(); }

 private:
  std::unique_ptr<ByteSource> source_;
  const fs::path path_;
  std::uint64_t out_ = 0;
};

// The rows of a table in a file, as lines of JSON.
template <class RowReader>
class TableSource final : public ByteSource {
 public:
  explicit TableSource(const fs::path& path) : file_(path), rows_(file_.text(), path.string()) {}

  std::size_t read(char* to, std::size_t bytes) override {
    while (at_ == lines_.size()) {
      lines_.clear();
      at_ = 0;
      if (!rows_.next(lines_)) return 0;
    }
    const std::size_t count = std::min(bytes, lines_.size() - at_);
    std::memcpy(to, lines_.data() + at_, count);
    at_ += count;
    return count;
  }
  std::uint64_t position() const override { return rows_.position(); }

 private:
  MappedFile file_;
  RowReader rows_;
  std::string lines_;
  std::size_t at_ = 0;
};

}  // namespace

Compression compression_of(const fs::path& path) {
  const std::string extension = extension_of(path);
  return extension == ".gz"    ? Compression::kGzip
         : extension == ".bz2" ? Compression::kBzip2
         : extension == ".zst" ? Compression::kZstd
                               : Compression::kNone;
}

std::unique_ptr<ByteSource> open_bytes(const fs::path& path) {
  const std::string extension = extension_of(path);
  if (extension == ".parquet") return std::make_unique<TableSource<parquet::RowReader>>(path);
  if (extension == ".arrow") return std::make_unique<TableSource<arrow::RowReader>>(path);
  std::unique_ptr<ByteSource> source;
  switch (compression_of(path)) {
    case Compression::kGzip:
      source = std::make_unique<GzipSource>(path);
      break;
    case Compression::kBzip2:
      source = std::make_unique<Bzip2Source>(path);
      break;
    case Compression::kZstd:
      source = std::make_unique<ZstdSource>(path);
      break;
    case Compression::kNone:
      return std::make_unique<PlainSource>(path);
  }
  return std::make_unique<GrowthLimit>(std::move(source), path);
}

}  // namespace stoa::data
