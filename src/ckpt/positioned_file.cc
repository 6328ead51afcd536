#include "ckpt/positioned_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/write_pieces.h"

namespace stoa::ckpt {

PositionedFile::PositionedFile(std::filesystem::path path, std::uint64_t bytes) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_here("write");
  ::flock(fd_, LOCK_SH);  // as of an AtomicFile: it is not abandoned
  if (bytes > 0 && ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) != 0) {
    // Not every file system reserves: the writes themselves will tell then.
    const bool unsupported = errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL;
    if (!unsupported || ::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
      const int saved = errno;
      ::close(std::exchange(fd_, -1));
      errno = saved;
      fail_here("reserve space for");
    }
  }
}

PositionedFile::~PositionedFile() {
  if (fd_ >= 0) ::close(fd_);
}

void PositionedFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) {
  if (!write_pieces(fd_, offset, data, bytes)) fail_here("write");
}

void PositionedFile::sync() {
  if (::fsync(fd_) != 0) fail_here("sync");
}

void PositionedFile::close() { ::close(std::exchange(fd_, -1)); }

void PositionedFile::fail_here(const char* what) const {
  fail<IoError>("cannot {} '{}': {}", what, path_.string(), std::strerror(errno));
}

}  // namespace stoa::ckpt
