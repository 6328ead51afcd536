#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/write_pieces.h"

namespace stoa {
namespace {

constexpr std::uint64_t kStretchBytes = 8 << 20;
constexpr std::string_view kTemporaryMark = ".tmp-";

[[noreturn]] void fail_io(std::string_view what, const fs::path& path) {
  fail<IoError>("cannot {} '{}': {}", what, path.string(), std::strerror(errno));
}

// "x.json.tmp-1234-5678": of an AtomicFile.
bool is_temporary_name(std::string_view name) {
  const auto mark = name.rfind(kTemporaryMark);
  if (mark == std::string_view::npos || mark == 0) return false;
  const std::string_view rest = name.substr(mark + kTemporaryMark.size());
  const auto dash = rest.find('-');
  return dash != 0 && dash != std::string_view::npos && dash + 1 < rest.size() &&
         rest.find_first_not_of("0123456789", dash + 1) == std::string_view::npos &&
         rest.find_first_not_of("0123456789") == dash;
}

int open_for_reading(const fs::path& path, struct stat* status) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_io("read", path);
  if (::fstat(fd, status) != 0 || S_ISDIR(status->st_mode)) {
    if (S_ISDIR(status->st_mode)) errno = EISDIR;
    const int saved = errno;
    ::close(fd);
    errno = saved;
    fail_io("read", path);
  }
  return fd;
}

}  // namespace

std::string read_text(const fs::path& path) {
  struct stat status {};
  const int fd = open_for_reading(path, &status);
  std::string text;
  text.reserve(static_cast<std::size_t>(status.st_size));
  char block[65536];
  for (;;) {
    const ssize_t n = ::read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int saved = errno;
      ::close(fd);
      errno = saved;
      fail_io("read", path);
    }
    if (n == 0) break;
    text.append(block, static_cast<std::size_t>(n));
  }
  ::close(fd);
  return text;
}

void remove_abandoned(const fs::path& directory) noexcept {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (!is_temporary_name(it->path().filename().string())) continue;
    const int fd = ::open(it->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat status {};
    const bool file = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    // A writer that has ended meanwhile may have left the name to its next file.
    struct stat named {};
    if (file && ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::stat(it->path().c_str(), &named) == 0 &&
        named.st_ino == status.st_ino)
      ::unlink(it->path().c_str());
    ::close(fd);
  }
}

void write_text(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void sync_directory(const fs::path& directory) {
  const fs::path target = directory.empty() ? fs::path(".") : directory;
  const int fd = ::open(target.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_io("open directory", target);
  const int result = ::fsync(fd);
  const int saved = errno;
  ::close(fd);
  errno = saved;
  if (result != 0 && errno != EINVAL) fail_io("sync directory", target);  // EINVAL: a file system without it
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  temporary_ = path_;
  temporary_ += std::string(kTemporaryMark) + std::to_string(::getpid()) + "-" +
                std::to_string(reinterpret_cast<std::uintptr_t>(this));
  // A rename would put a file in the place of /dev/null.
  struct stat present {};
  require<IoError>(
      ::stat(path_.c_str(), &present) != 0 || S_ISREG(present.st_mode) || S_ISDIR(present.st_mode),
      "cannot write '{}': it is a pipe or a device, expected a file", path_.string());
  for (struct stat status{}; status.st_nlink == 0;) {
    fd_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0) fail_io("write", path_);
    // Another process may have removed it as abandoned before it was locked: then it has no name any more.
    ::flock(fd_, LOCK_SH);
    if (::fstat(fd_, &status) == 0 && status.st_nlink > 0) break;
    ::close(std::exchange(fd_, -1));
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    ::unlink(temporary_.c_str());
    ::close(fd_);
  }
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  write_at(size_, data, bytes);
  const std::uint64_t first = size_ / kStretchBytes;
  size_ += bytes;
  const std::uint64_t count = size_ / kStretchBytes - first;
  // Full stretches go to the disk while the next ones are made, so that commit() waits for little. A hint
  // only: what fails there, fsync reports.
  if (count > 0)
    ::sync_file_range(fd_, static_cast<off64_t>(first * kStretchBytes),
                      static_cast<off64_t>(count * kStretchBytes), SYNC_FILE_RANGE_WRITE);
}

void AtomicFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) {
  if (!write_pieces(fd_, offset, data, bytes)) fail_io("write", path_);
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_io("sync", path_);
  // Renamed while the lock is held: remove_abandoned() would take an unlocked temporary file away.
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_io("rename into place", path_);
  ::close(std::exchange(fd_, -1));  // fsync has reported what could not be written
  sync_directory(path_.parent_path());
}

MappedFile::MappedFile(const fs::path& path) {
  struct stat status {};
  const int fd = open_for_reading(path, &status);
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) {
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    if (data_ == MAP_FAILED) {
      const int saved = errno;
      data_ = nullptr;
      ::close(fd);
      errno = saved;
      fail_io("map", path);
    }
  }
  ::close(fd);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace stoa
