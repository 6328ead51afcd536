#include "base/write_pieces.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace stoa {

bool write_pieces(int fd, std::uint64_t offset, const void* data, std::size_t bytes) {
  constexpr std::uint64_t kPiece = 64 << 10;
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    // Pieces end at multiples of kPiece, so that each stays within one aligned 64 KiB range of the file.
    const std::size_t piece = std::min<std::size_t>(bytes, kPiece - offset % kPiece);
    const ssize_t n = ::pwrite(fd, p, piece, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    p += n;
    offset += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace stoa
