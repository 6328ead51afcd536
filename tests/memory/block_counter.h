// Counts large blocks that the process takes from the heap, whoever asks: operator new, malloc and kin of
// every library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoa::memory_test {

inline constexpr std::size_t kLargeBlock = 16 * 1024;  // bytes; larger ones are counted

struct LargeBlocks {
  std::int64_t count = 0;
  std::size_t largest = 0;  // bytes
};

// From here on.
void start_counting_blocks();
// Since then; counting ends.
LargeBlocks stop_counting_blocks();
// False where the heap cannot be watched (sanitizers bring their own).
bool can_count_blocks();

}  // namespace stoa::memory_test
