// Files: whole reads, memory maps, and writes that appear complete or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace stoa {

namespace fs = std::filesystem;

// The whole file as text. IoError when it cannot be read.
std::string read_text(const fs::path& path);

// Writes `text` to `path` atomically (see AtomicFile).
void write_text(const fs::path& path, std::string_view text);

// Removes from `directory` the temporary files of writers that were killed. Files of running writers, on any
// host, are recognised by their lock and kept; on file systems without locks every file is kept. Errors are
// ignored.
void remove_abandoned(const fs::path& directory) noexcept;

// fsync of a directory, so that a rename in it survives a power cut. IoError on failure.
void sync_directory(const fs::path& directory);

// A file that appears under its name only once commit() returns: it is written to a temporary file in the
// same directory, fsynced and renamed, and the directory is fsynced. Destruction without commit() removes the
// temporary file; remove_abandoned() removes those of killed processes.
class AtomicFile {
 public:
  explicit AtomicFile(fs::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);  // appends; IoError names the path and the reason
  void write(std::string_view text) { write(text.data(), text.size()); }
  void write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  std::uint64_t size() const { return size_; }  // bytes appended so far
  const fs::path& path() const { return path_; }
  void commit();

 private:
  fs::path path_, temporary_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

// Read-only memory map of a whole file.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }
  std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace stoa
