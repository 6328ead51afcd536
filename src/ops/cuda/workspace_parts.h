#pragma once

#include <cstdint>

#include "ops/cuda/rounding.h"

namespace stoa::ops::cuda {

// Divides a workspace into parts that are aligned as libraries require, more than the scratch stack aligns.
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
