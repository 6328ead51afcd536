// The addresses of memory that does not exist. Operations of a dry run compare addresses (Checker::apart): a
// tensor in the arena and one on the scratch stack must not seem to overlap.
#pragma once

#include <cstdint>

namespace stoa {

inline constexpr std::uintptr_t kMetaMemoryAddress = std::uintptr_t{1} << 20;
inline constexpr std::uintptr_t kDryScratchAddress = std::uintptr_t{1} << 62;  // 4 EiB of a plan below it

}  // namespace stoa
