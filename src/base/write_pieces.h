#pragma once

#include <cstddef>
#include <cstdint>

namespace stoa {

// Writes all bytes at `offset` of the open file; false with errno when that fails. In pieces of 64 KiB: a
// longer write makes Linux take its cache in larger runs of pages, which can cost ten times the processor
// time (seen on Linux 6.18, ext4: 62 MB in 0.15 s instead of 0.015 s).
bool write_pieces(int fd, std::uint64_t offset, const void* data, std::size_t bytes);

}  // namespace stoa
