// Size that `xz -9` compresses bytes to: another baseline, which everybody knows.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace stoa::eval {

// Bytes of the .xz file that `xz -9 -T1` (liblzma's preset 9, one block, CRC64) makes of the parts one after
// the other. IoError when there is not enough memory: preset 9 takes 700 MB.
std::int64_t xz_size(const std::vector<std::string_view>& parts);

}  // namespace stoa::eval
