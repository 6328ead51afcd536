#include "watch/append.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace stoa::watch {

void append_whole(int fd, std::string_view bytes, const fs::path& path) {
  const off_t before = ::lseek(fd, 0, SEEK_END);
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int reason = errno;
      // Should this fail, too, the torn record stays; readers skip it.
      [[maybe_unused]] const int undone = before < 0 ? -1 : ::ftruncate(fd, before);
      fail<IoError>("cannot write '{}': {}", path.string(), std::strerror(reason));
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace stoa::watch
