#include "ckpt/crc32.h"

#include <fmt/format.h>
#include <zlib.h>

#include "base/file.h"

namespace stoa::ckpt {

std::uint32_t crc32(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

std::uint32_t crc32_part(std::uint32_t crc, std::uint64_t after) {
  static_assert(sizeof(z_off_t) == 8);
  return static_cast<std::uint32_t>(::crc32_combine(crc, 0, static_cast<z_off_t>(after)));
}

std::uint32_t crc32_file(const std::filesystem::path& path) { return crc32(MappedFile(path).bytes()); }

std::string crc32_text(std::uint32_t value) { return fmt::format("{:08x}", value); }

}  // namespace stoa::ckpt
