// CRC-32 (zlib's) of a file out of parts that several writers know: unlike XXH3 it is a sum of what each of
// its bytes adds at its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace stoa::ckpt {

std::uint32_t crc32(std::span<const std::byte> bytes);
// What `bytes` with the sum `crc` add to the sum of a file in which `after` bytes follow them. The sum of the
// file is the exclusive or of what its parts add.
std::uint32_t crc32_part(std::uint32_t crc, std::uint64_t after);
std::uint32_t crc32_file(const std::filesystem::path& path);  // IoError
std::string crc32_text(std::uint32_t value);                  // 8 hexadecimal digits

}  // namespace stoa::ckpt
