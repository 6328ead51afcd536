#pragma once

#include <cstdint>

#include "ops/cuda/workspace_alignment.h"

namespace stoa::ops::cuda {

// A workspace of several parts: what the scratch stack gives is aligned to less than libraries want.
class WorkspaceParts {
 public:
  explicit WorkspaceParts(void* workspace) : at_(aligned(reinterpret_cast<std::uintptr_t>(workspace))) {}
  void* take(std::size_t bytes) {
    void* out = reinterpret_cast<void*>(at_);
    at_ += aligned(bytes);
    return out;
  }

 private:
  std::uintptr_t at_;
};

}  // namespace stoa::ops::cuda
