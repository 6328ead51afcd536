// CRC-32C (Castagnoli, polynomial 0x1EDC6F41 reflected; RFC 3720 section B.4 has vectors), as TFRecord files
// use it.
#pragma once

#include <cstdint>
#include <string_view>

namespace stoa::watch {

std::uint32_t crc32c(std::string_view bytes);

// TFRecord stores checksums rotated and shifted, so that a checksum of data that hold checksums stays
// meaningful.
constexpr std::uint32_t mask_crc(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

}  // namespace stoa::watch
