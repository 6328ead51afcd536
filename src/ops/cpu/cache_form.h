// In what form a cache of keys and values keeps a head's row (ops/cache_rows.h). Kernel files include this:
// no functions.
#pragma once

#include <cstdint>

namespace stoa::ops::cpu {

enum class CacheForm : std::uint8_t { kF32, kBF16, kF16, kCodes };

}  // namespace stoa::ops::cpu
