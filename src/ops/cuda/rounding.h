#pragma once

#include <cstddef>
#include <cstdint>

namespace stoa::ops::cuda {

// a / b, rounded up; a >= 0, b > 0.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

inline constexpr std::size_t kWorkspaceAlignment =
    256;  // bytes; what libraries want of each part of a workspace

inline std::size_t aligned(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

}  // namespace stoa::ops::cuda
