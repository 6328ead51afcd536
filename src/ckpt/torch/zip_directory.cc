#include "ckpt/torch/zip_directory.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ckpt/crc32.h"

namespace stoa::ckpt::torch {
namespace {

// The format's numbers are little-endian; names as in its specification (APPNOTE).
class ZipReader {
 public:
  ZipReader(std::span<const std::byte> file, const std::string& source) : file_(file), source_(source) {}

  std::vector<ZipEntry> read() {
    find_end();
    check(count_ <= kMaxEntries, "claims {} entries; at most {} are read", count_, kMaxEntries);
    check(directory_ <= file_.size() && directory_bytes_ <= file_.size() - directory_,
          "claims a directory of {} bytes at {}, beyond its end (truncated?)", directory_bytes_, directory_);
    std::vector<ZipEntry> entries;
    std::uint64_t at = directory_;
    for (std::uint64_t i = 0; i < count_; ++i) at = add_entry(at, entries);
    check(at <= directory_ + directory_bytes_, "has a directory longer than it says");
    return entries;
  }

 private:
  static constexpr std::uint64_t kMaxEntries = 10'000'000;
  static constexpr std::uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kEnd64Place = 0x07064b50,
                                 kDirectoryEntry = 0x02014b50, kLocalEntry = 0x04034b50;

  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) [[unlikely]]
      fail<DataError>("'{}' is a damaged zip file: it {}", source_,
                      fmt::format(format, std::forward<Args>(args)...));
  }
  std::uint64_t number(std::uint64_t at, int bytes) const {
    const auto n = static_cast<std::uint64_t>(bytes);
    check(at <= file_.size() && n <= file_.size() - at, "ends within its directory (truncated?)");
    std::uint64_t x = 0;
    for (std::uint64_t i = n; i-- > 0;) x = x << 8 | static_cast<std::uint64_t>(file_[at + i]);
    return x;
  }
  std::uint32_t u32(std::uint64_t at) const { return static_cast<std::uint32_t>(number(at, 4)); }
  std::uint64_t u16(std::uint64_t at) const { return number(at, 2); }

  void find_end() {
    constexpr std::uint64_t kEndBytes = 22, kMaxComment = 65535;
    check(file_.size() >= kEndBytes, "is {} bytes long", file_.size());
    std::uint64_t at = file_.size() - kEndBytes;
    const std::uint64_t lowest = at > kMaxComment ? at - kMaxComment : 0;
    while (!(u32(at) == kEnd && u16(at + 20) == file_.size() - at - kEndBytes)) {
      check(at > lowest, "has no directory at its end (truncated?)");
      --at;
    }
    check(u16(at + 4) == u16(at + 6) || u16(at + 4) == 0xffff, "is one part of several");
    count_ = u16(at + 10);
    directory_bytes_ = u32(at + 12);
    directory_ = u32(at + 16);
    constexpr std::uint64_t kPlaceBytes = 20;
    if (at < kPlaceBytes || u32(at - kPlaceBytes) != kEnd64Place) return;
    const std::uint64_t end64 = number(at - kPlaceBytes + 8, 8);
    check(end64 < at && u32(end64) == kEnd64, "has no directory where its end says");
    count_ = number(end64 + 32, 8);
    directory_bytes_ = number(end64 + 40, 8);
    directory_ = number(end64 + 48, 8);
  }

  // Where the next one lies.
  std::uint64_t add_entry(std::uint64_t at, std::vector<ZipEntry>& entries) const {
    check(u32(at) == kDirectoryEntry, "has something else where entry {} should be", entries.size());
    const std::uint64_t flags = u16(at + 8), method = u16(at + 10), name_bytes = u16(at + 28),
                        extra_bytes = u16(at + 30), comment_bytes = u16(at + 32);
    ZipEntry entry;
    entry.crc32 = u32(at + 16);
    std::uint64_t stored = u32(at + 20), bytes = u32(at + 24), local = u32(at + 42);
    number(at + 46 + name_bytes + extra_bytes + comment_bytes, 0);  // they are there
    entry.name = {reinterpret_cast<const char*>(file_.data()) + at + 46,
                  static_cast<std::size_t>(name_bytes)};
    wide_sizes(at + 46 + name_bytes, extra_bytes, bytes, stored, local);

    const auto name = entry.name.substr(0, 200);
    check((flags & 1) == 0, "holds '{}' encrypted", name);
    entry.compressed = method != 0;
    check(entry.compressed || stored == bytes, "holds '{}' of {} bytes in {}", name, bytes, stored);
    bytes = stored;
    check(u32(local) == kLocalEntry, "does not hold '{}' where its directory says", name);
    const std::uint64_t begin = local + 30 + u16(local + 26) + u16(local + 28);
    check(begin <= file_.size() && bytes <= file_.size() - begin,
          "ends within '{}', which is {} bytes at {} (truncated?)", name, bytes, begin);
    entry.bytes = file_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
    entries.push_back(entry);
    return at + 46 + name_bytes + extra_bytes + comment_bytes;
  }
  // Those that do not fit 32 bits stand in the extra field, in this order.
  void wide_sizes(std::uint64_t at, std::uint64_t extra_bytes, std::uint64_t& bytes, std::uint64_t& stored,
                  std::uint64_t& local) const {
    const std::uint64_t end = at + extra_bytes;
    while (at + 4 <= end) {
      const std::uint64_t tag = u16(at), field_end = at + 4 + u16(at + 2);
      check(field_end <= end, "has an extra field longer than its entry");
      at += 4;
      if (tag == 1) {
        for (std::uint64_t* value : {&bytes, &stored, &local}) {
          if (*value != 0xffffffff) continue;
          check(at + 8 <= field_end, "has an entry without its size");
          *value = number(at, 8);
          at += 8;
        }
        return;
      }
      at = field_end;
    }
  }

  const std::span<const std::byte> file_;
  const std::string& source_;
  std::uint64_t count_ = 0, directory_ = 0, directory_bytes_ = 0;
};

}  // namespace

bool ZipDirectory::is_zip(std::span<const std::byte> file) {
  constexpr std::byte kStart[] = {std::byte{'P'}, std::byte{'K'}, std::byte{3}, std::byte{4}};
  return file.size() >= 4 && std::equal(std::begin(kStart), std::end(kStart), file.begin());
}

ZipDirectory::ZipDirectory(std::span<const std::byte> file, std::string source)
    : source_(std::move(source)), entries_(ZipReader(file, source_).read()) {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    require<DataError>(index_.emplace(entries_[i].name, i).second,
                       "'{}' is a damaged zip file: it holds '{}' twice", source_,
                       entries_[i].name.substr(0, 200));
}

const ZipEntry* ZipDirectory::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &entries_[it->second];
}

bool ZipDirectory::check_sums() const {
  bool compared = false;
  for (const ZipEntry& entry : entries_) {
    if (entry.crc32 == 0 || entry.compressed) continue;
    compared = true;
    const std::uint32_t found = crc32(entry.bytes);
    require<DataError>(found == entry.crc32,
                       "'{}' is damaged: '{}' has the checksum {:08x} instead of {:08x}", source_, entry.name,
                       found, entry.crc32);
  }
  return compared;
}

}  // namespace stoa::ckpt::torch
