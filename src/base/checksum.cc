#include "base/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "base/file.h"

namespace stoa {

std::uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
std::uint64_t checksum(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }
std::uint64_t checksum_file(const std::filesystem::path& path) { return checksum(MappedFile(path).bytes()); }
std::string checksum_text(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace stoa
