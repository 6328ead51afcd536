#include "data/text_source.h"

#include <iconv.h>
#include <simdjson.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/detect_encoding.h"
#include "data/file_kind.h"
#include "data/sampled_source.h"
#include "data/utf8_scan.h"

namespace stoa::data {
namespace {

constexpr std::size_t kReadBufferBytes = 1 << 17;

// UTF-8, unchanged but validated while it is read.
class CheckedSource final : public ByteSource {
 public:
  CheckedSource(std::unique_ptr<ByteSource> source, std::string name, std::uint64_t offset)
      : source_(std::move(source)), name_(std::move(name)), offset_(offset) {}

  std::size_t read(char* to, std::size_t bytes) override {
    const std::size_t got = source_->read(to, bytes);
    if (got == 0) {
      if (!open_.empty()) fail_at(offset_, open_);
      return 0;
    }
    check({to, got});
    return got;
  }
  std::uint64_t position() const override { return source_->position(); }

 private:
  [[noreturn]] void fail_at(std::uint64_t offset, std::string_view rest) const {
    fail<DataError>(
        "'{}' byte {}: 0x{:02x} is not UTF-8, unlike the text before it; correct the file, or give its "
        "encoding with --encoding (windows-1252, gb18030 or anything that iconv supports; bytes: unchanged)",
        name_, offset, static_cast<unsigned char>(rest.front()));
  }

  void check(std::string_view text) {
    // A character that began in the piece before.
    while (!open_.empty() && !text.empty()) {
      open_ += text.front();
      text.remove_prefix(1);
      const Utf8Scan scan = scan_utf8(open_);
      if (scan.valid == open_.size()) {
        offset_ += open_.size();
        open_.clear();
      } else if (!scan.truncated) {
        fail_at(offset_, open_);
      }
    }
    if (text.empty()) return;
    // The last character may continue in the next piece.
    std::size_t whole = text.size();
    while (whole > 0 && text.size() - whole < 3 && (text[whole - 1] & 0xc0) == 0x80) --whole;
    if (whole > 0 && static_cast<unsigned char>(text[whole - 1]) >= 0xc0)
      --whole;
    else
      whole = text.size();
    if (!simdjson::validate_utf8(text.data(), whole)) {
      const Utf8Scan scan = scan_utf8(text.substr(0, whole));
      fail_at(offset_ + scan.valid, text.substr(scan.valid));
    }
    const Utf8Scan tail = scan_utf8(text.substr(whole));
    whole += tail.valid;
    offset_ += whole;
    open_ = text.substr(whole);
    if (!open_.empty() && !tail.truncated) fail_at(offset_, open_);
  }

  std::unique_ptr<ByteSource> source_;
  const std::string name_;
  std::uint64_t offset_;  // in the content, of the first byte of open_
  std::string open_;      // of a character that continues
};

class ConvertedSource final : public ByteSource {
 public:
  ConvertedSource(std::unique_ptr<ByteSource> source, std::string name, std::string encoding,
                  std::uint64_t offset)
      : source_(std::move(source)),
        name_(std::move(name)),
        encoding_(std::move(encoding)),
        offset_(offset),
        converter_(::iconv_open("UTF-8", encoding_.c_str())),
        in_(kReadBufferBytes),
        out_(4 * kReadBufferBytes) {
    require<ConfigError>(converter_ != reinterpret_cast<iconv_t>(-1),
                         "'{}' is read as {}, which this system's iconv does not support (iconv --list shows "
                         "all): give another --encoding",
                         name_, encoding_);
  }
  ~ConvertedSource() override { ::iconv_close(converter_); }
  ConvertedSource(const ConvertedSource&) = delete;
  ConvertedSource& operator=(const ConvertedSource&) = delete;

  std::size_t read(char* to, std::size_t bytes) override {
    while (begin_ == end_)
      if (!refill()) return 0;
    const std::size_t count = std::min(bytes, end_ - begin_);
    std::memcpy(to, out_.data() + begin_, count);
    begin_ += count;
    return count;
  }
  std::uint64_t position() const override { return source_->position(); }

 private:
  bool refill() {
    const std::size_t got = source_->read(in_.data() + open_, in_.size() - open_);
    if (got == 0) {
      if (open_ > 0) fail_at(in_.front());
      return false;
    }
    char *from = in_.data(), *to = out_.data();
    std::size_t left = open_ + got, room = out_.size();
    const std::size_t all = left;
    const std::size_t status = ::iconv(converter_, &from, &left, &to, &room);
    offset_ += all - left;
    if (status == static_cast<std::size_t>(-1) && errno != EINVAL) fail_at(*from);
    std::memmove(in_.data(), from, left);  // the beginning of a character
    open_ = left;
    begin_ = 0;
    end_ = static_cast<std::size_t>(to - out_.data());
    return true;
  }
  [[noreturn]] void fail_at(char byte) const {
    fail<DataError>("'{}' byte {}: 0x{:02x} is not {}, the encoding of the file; give another --encoding",
                    name_, offset_, static_cast<unsigned char>(byte), encoding_);
  }

  std::unique_ptr<ByteSource> source_;
  const std::string name_, encoding_;
  std::uint64_t offset_;  // in the content, of the first byte of in_
  iconv_t converter_;
  std::vector<char> in_, out_;
  std::size_t open_ = 0, begin_ = 0, end_ = 0;
};

class UnixLineEnds final : public ByteSource {
 public:
  explicit UnixLineEnds(std::unique_ptr<ByteSource> source)
      : source_(std::move(source)), buffer_(kReadBufferBytes) {}

  std::size_t read(char* to, std::size_t bytes) override {
    while (begin_ == end_)
      if (!refill()) return 0;
    const std::size_t count = std::min(bytes, end_ - begin_);
    std::memcpy(to, buffer_.data() + begin_, count);
    begin_ += count;
    return count;
  }
  std::uint64_t position() const override { return source_->position(); }

 private:
  bool refill() {
    std::size_t size = 0;
    if (held_) buffer_[size++] = '\r';
    const std::size_t got = source_->read(buffer_.data() + size, buffer_.size() - size);
    size += got;
    held_ = got > 0 && buffer_[size - 1] == '\r';  // what follows it is not known yet
    if (held_) --size;
    begin_ = end_ = 0;
    for (std::size_t i = 0; i < size; ++i)
      if (buffer_[i] != '\r' || i + 1 == size || buffer_[i + 1] != '\n') buffer_[end_++] = buffer_[i];
    return got > 0 || end_ > 0;
  }

  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  bool held_ = false;
};

bool is_utf8(std::string_view name) {
  return name == "UTF-8" || name == "utf-8" || name == "utf8" || name == "UTF8";
}

}  // namespace

std::unique_ptr<ByteSource> open_text(const fs::path& path, const TextEncoding& encoding) {
  return text_of(open_bytes(path), path.string(), encoding);
}

std::unique_ptr<ByteSource> text_of(std::unique_ptr<ByteSource> bytes, const std::string& file,
                                    const TextEncoding& encoding) {
  if (encoding.name == "bytes") return bytes;
  auto sampled = std::make_unique<SampledSource>(std::move(bytes));
  const std::string_view sample = sampled->sample();
  const std::string_view other = other_kind(sample);
  require<DataError>(other.empty(), "'{}' {}", file, other);
  DetectedEncoding detected = detect_encoding(sample);
  const bool told = encoding.name == "auto" || encoding.name == "unchecked";  // by the bytes
  if (!told) {
    if (!is_utf8(encoding.name) || !is_utf8(detected.name)) detected.skip = 0;
    detected.name = encoding.name;
  }
  require<DataError>(
      !detected.name.empty(),
      "'{}' byte {}: 0x{:02x} is not UTF-8, and its encoding cannot be detected: give it with --encoding "
      "(windows-1252, gb18030 or anything that iconv supports; bytes: unchanged)",
      file, scan_utf8(sample).valid,
      static_cast<unsigned char>(sample[std::min(scan_utf8(sample).valid, sample.size() - 1)]));
  const bool utf8 = is_utf8(detected.name);
  const std::uint64_t skip = detected.skip;
  bool windows = utf8 && has_windows_line_ends(sample);
  sampled->skip(detected.skip);
  std::unique_ptr<ByteSource> source;
  if (utf8) {
    source = std::move(sampled);
    if (encoding.name != "unchecked") source = std::make_unique<CheckedSource>(std::move(source), file, skip);
  } else {
    auto converted = std::make_unique<SampledSource>(
        std::make_unique<ConvertedSource>(std::move(sampled), file, detected.name, skip));
    windows = has_windows_line_ends(converted->sample());
    source = std::move(converted);
  }
  windows = windows && encoding.line_ends;
  if (encoding.notice && (!utf8 || windows)) {
    std::string said = utf8 ? "" : fmt::format("is read as {}", detected.name);
    if (!utf8 && told && skip == 0) said += " (--encoding overrides)";
    if (windows) said += fmt::format("{}Windows line endings as \"\\n\"", utf8 ? "is read with " : ", ");
    encoding.notice(fmt::format("'{}' {}", file, said));
  }
  if (windows) source = std::make_unique<UnixLineEnds>(std::move(source));
  return source;
}

}  // namespace stoa::data
