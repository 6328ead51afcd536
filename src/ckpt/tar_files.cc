#include "ckpt/tar_files.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace stoa::ckpt {
namespace {

constexpr std::size_t kBlock = 512;
// Kinds of entries, at kKindAt.
constexpr std::size_t kSizeAt = 124, kSumAt = 148, kKindAt = 156, kPrefixAt = 345;
constexpr std::size_t kMostFiles = 1'000'000;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A field of text, which a zero byte may end.
std::string field(std::span<const std::byte> block, std::size_t at, std::size_t length) {
  const auto text = text_of(block.subspan(at, length));
  return std::string(text.substr(0, text.find('\0')));
}

// Octal digits, or with the first bit set a big-endian number; nullopt: neither.
std::optional<std::uint64_t> number(std::span<const std::byte> block, std::size_t at, std::size_t length) {
  const auto bytes = block.subspan(at, length);
  if ((static_cast<unsigned>(bytes[0]) & 0x80) != 0) {
    std::uint64_t x = static_cast<unsigned>(bytes[0]) & 0x7f;
    for (std::size_t i = 1; i < length; ++i) {
      if (x >> 55 != 0) return std::nullopt;
      x = x << 8 | static_cast<std::uint64_t>(bytes[i]);
    }
    return x;
  }
  std::string digits = field(block, at, length);
  while (!digits.empty() && digits.back() == ' ') digits.pop_back();
  const std::size_t first = digits.find_first_not_of(' ');
  if (first == std::string::npos) return 0;
  std::uint64_t x = 0;
  const auto read = std::from_chars(digits.data() + first, digits.data() + digits.size(), x, 8);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return std::nullopt;
  return x;
}

bool sum_is_right(std::span<const std::byte> block) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i)
    sum += i >= kSumAt && i < kSumAt + 8 ? std::uint64_t{' '} : static_cast<std::uint64_t>(block[i]);
  return number(block, kSumAt, 8) == sum;
}

// The records "LENGTH KEY=VALUE\n" of a pax header: that of `key`.
std::optional<std::string> pax_record(std::string_view records, std::string_view key) {
  while (!records.empty()) {
    std::size_t length = 0;
    const auto read = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(read.ptr - records.data());
    if (read.ec != std::errc() || length <= digits + 1 || length > records.size()) return std::nullopt;
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    if (record.starts_with(key) && record.substr(key.size()).starts_with('='))
      return std::string(record.substr(key.size() + 1));
    records.remove_prefix(length);
  }
  return std::nullopt;
}

// "./a/b" is "a/b".
std::string plain_name(std::string name) {
  while (name.starts_with("./")) name.erase(0, 2);
  return name;
}

// The map of a temporary file with what gzip compressed.
MappedFile unpacked(const fs::path& archive) {
  const char* const given = std::getenv("TMPDIR");
  std::string name = (fs::path(given && *given ? given : "/tmp") / "stoa-unpacked-XXXXXX").string();
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  require<IoError>(file >= 0, "cannot unpack '{}' into '{}': {}", archive.string(), name,
                   std::strerror(errno));
  const auto remove = [&] {
    ::close(file);
    ::unlink(name.c_str());
  };
  gzFile in = ::gzopen(archive.c_str(), "rb");
  std::vector<std::byte> piece(std::size_t{1} << 20);
  std::string problem;
  while (in && problem.empty()) {
    const int bytes = ::gzread(in, piece.data(), static_cast<unsigned>(piece.size()));
    if (bytes == 0) break;
    int code = 0;
    if (bytes < 0)
      problem = ::gzerror(in, &code);
    else if (::write(file, piece.data(), static_cast<std::size_t>(bytes)) != bytes)
      problem =
          fmt::format("cannot write '{}': {} (TMPDIR names another directory)", name, std::strerror(errno));
  }
  if (!in) problem = "it cannot be opened";
  if (in) ::gzclose(in);
  if (!problem.empty()) {
    remove();
    fail<DataError>("cannot unpack '{}': {}", archive.string(), problem);
  }
  MappedFile map(name);
  remove();
  return map;
}

bool is_gzip(const MappedFile& map) {
  return map.size() > 2 && map.bytes()[0] == std::byte{0x1f} && map.bytes()[1] == std::byte{0x8b};
}

}  // namespace

TarFiles::TarFiles(fs::path archive) : archive_(std::move(archive)), map_(archive_) {
  if (is_gzip(map_)) map_ = unpacked(archive_);
  read(map_.bytes());
}

TarFiles::TarFiles(std::span<const std::byte> bytes, const std::string& source) : archive_(source) {
  read(bytes);
}

void TarFiles::read(std::span<const std::byte> bytes) {
  std::size_t at = 0;
  std::optional<std::string> long_name;
  while (bytes.size() - at >= kBlock) {
    const auto header = bytes.subspan(at, kBlock);
    if (std::all_of(header.begin(), header.end(), [](std::byte b) { return b == std::byte{0}; })) break;
    require<DataError>(sum_is_right(header), "'{}' is no tar archive, or damaged: at byte {} is no header",
                       archive_.string(), at);
    at += kBlock;
    const auto size = number(header, kSizeAt, 12);
    require<DataError>(size && *size <= bytes.size() - at, "'{}' ends within a file of {} bytes (truncated?)",
                       archive_.string(), size.value_or(0));
    const auto content = bytes.subspan(at, static_cast<std::size_t>(*size));
    at += std::min(bytes.size() - at, (content.size() + kBlock - 1) / kBlock * kBlock);
    const char kind = static_cast<char>(header[kKindAt]);
    if (kind == 'L') {  // GNU: the name of the next entry
      const auto text = text_of(content);
      long_name = std::string(text.substr(0, text.find('\0')));
      continue;
    }
    if (kind == 'x') {  // pax: the same
      if (auto path = pax_record(text_of(content), "path")) long_name = std::move(path);
      continue;
    }
    std::string name = field(header, 0, 100);
    if (text_of(header.subspan(257, 5)) == "ustar")
      if (const std::string prefix = field(header, kPrefixAt, 155); !prefix.empty())
        name = prefix + "/" + name;
    if (long_name) name = *std::move(long_name);
    long_name.reset();
    if (kind != '0' && kind != '\0') continue;  // a folder, a link
    require<DataError>(files_.size() < kMostFiles, "'{}' holds more than {} files", archive_.string(),
                       kMostFiles);
    files_.insert_or_assign(plain_name(std::move(name)), content);
  }
  require<DataError>(!files_.empty(), "'{}' is no tar archive, or holds no file", archive_.string());
}

std::optional<std::span<const std::byte>> TarFiles::find(const std::string& name) const {
  const auto found = files_.find(name);
  return found == files_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> TarFiles::names() const {
  std::vector<std::string> out;
  for (const auto& [name, bytes] : files_) out.push_back(name);
  return out;
}

}  // namespace stoa::ckpt
