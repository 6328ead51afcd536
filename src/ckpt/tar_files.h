// A tar archive, plain or compressed by gzip: POSIX ustar and pax, and GNU's long names.
#pragma once

#include "ckpt/file_set.h"

namespace stoa::ckpt {

// Files of a plain archive are read on the map of its file. One that is compressed is unpacked into a
// temporary file without a name, in the directory that TMPDIR says.
class TarFiles final : public FileSet {
 public:
  // IoError; DataError: no archive, or damaged.
  explicit TarFiles(fs::path archive);
  // An archive in memory, which must outlive this.
  TarFiles(std::span<const std::byte> bytes, const std::string& source);

  fs::path path() const override { return archive_; }
  std::optional<std::span<const std::byte>> find(const std::string& name) const override;
  std::vector<std::string> names() const override;

 private:
  void read(std::span<const std::byte> bytes);

  const fs::path archive_;
  MappedFile map_;
  std::map<std::string, std::span<const std::byte>> files_;
};

}  // namespace stoa::ckpt
