// Writes a plain tar archive (POSIX ustar; sizes from 8 GiB on in GNU's binary form), which appears complete
// or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"

namespace stoa::ckpt {

class TarWriter {
 public:
  explicit TarWriter(std::filesystem::path archive) : file_(std::move(archive)) {}

  // InternalError: a name of more than 100 bytes.
  void add(const std::string& name, std::string_view content);
  // The files of `folder`, by name, as "prefix/name"; each is removed once it is in the archive.
  void move(const std::filesystem::path& folder, const std::string& prefix);
  void commit();

 private:
  void begin(const std::string& name, std::uint64_t bytes);
  void fill_block();

  AtomicFile file_;
};

}  // namespace stoa::ckpt
