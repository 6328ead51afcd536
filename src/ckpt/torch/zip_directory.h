// What a zip file holds, as torch.save writes it: entries that are stored as they are, at offsets that are
// read from the directory at its end. Libraries for zip files hand out copies of entries, not their place
// in the file; tensors are to be read from the file's memory map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stoa::ckpt::torch {

struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> bytes;
  std::uint32_t crc32 = 0;
  bool compressed = false;  // then `bytes` are not its content
};

class ZipDirectory {
 public:
  // Does it start as a zip file does?
  static bool is_zip(std::span<const std::byte> file);

  // Reads the directory; names and bytes are views of `file`. DataError, which names `source`: truncated, of
  // several parts, an entry outside the file, encrypted or there twice. Sizes beyond 4 GB are
  // read.
  ZipDirectory(std::span<const std::byte> file, std::string source);

  const std::string& source() const { return source_; }
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;  // nullptr: not there
  // Compares all entries with their checksums. DataError names the first that differs. false: the writer
  // computed none (they are 0).
  bool check_sums() const;

 private:
  std::string source_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, std::size_t> index_;
};

}  // namespace stoa::ckpt::torch
