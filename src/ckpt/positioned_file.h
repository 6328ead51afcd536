// A file of known size that several threads, or several processes, fill at known places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace stoa::ckpt {

class PositionedFile {
 public:
  // Creates the file, or opens it when another writer has, and reserves `bytes` on disk: a full disk is found
  // here.
  PositionedFile(std::filesystem::path path, std::uint64_t bytes);
  ~PositionedFile();
  PositionedFile(const PositionedFile&) = delete;
  PositionedFile& operator=(const PositionedFile&) = delete;

  // Thread-safe. IoError names path and reason.
  void write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  void sync();   // IoError: something could not be written
  void close();  // after sync(); until then the file is locked and not abandoned (base/file.h)
  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void fail_here(const char* what) const;
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace stoa::ckpt
