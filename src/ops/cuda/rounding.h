#pragma once

#include <cstddef>

#include "base/rounding.h"

namespace stoa::ops::cuda {

inline constexpr std::size_t kWorkspaceAlignment =
    256;  // bytes; what libraries want of each part of a workspace

inline std::size_t aligned(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

}  // namespace stoa::ops::cuda
