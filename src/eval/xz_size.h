// Size that the program `xz` compresses bytes to: another baseline, which everybody has.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace stoa::eval {

// Bytes of `xz -9 -T1` of the parts one after the other; none where there is no such program. IoError when it
// fails.
std::optional<std::int64_t> xz_size(const std::vector<std::string_view>& parts);

}  // namespace stoa::eval
