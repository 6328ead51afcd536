// Checksums of files and tokenizers: XXH3, 64 bits, written as 16 hexadecimal digits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace stoa {

std::uint64_t checksum(std::span<const std::byte> bytes);
std::uint64_t checksum(std::string_view text);
std::uint64_t checksum_file(const std::filesystem::path& path);  // streams; IoError
std::string checksum_text(std::uint64_t value);                  // "00ff…", 16 digits

// The checksum of bytes that come piece after piece: that of all of them together.
class RunningChecksum {
 public:
  RunningChecksum();
  ~RunningChecksum();
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;  // of what was added so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The checksum of name, size and modification time of a file, or of all files of a folder. Nothing is
// read.
std::uint64_t checksum_of_states(const std::filesystem::path& place);

}  // namespace stoa
