// Matrix products on the host, by the definition in ops/cuda/matmul.h: what the GPU's library does, for tests
// of everything around it.
#pragma once

#include "ops/cuda/matmul.h"

namespace stoa::ops::cuda::emulation {

class HostMatmul final : public MatmulLibrary {
 public:
  std::size_t workspace_bytes() const override { return 4096; }
  void run(const char* op, const Matmul& matmul, void* stream, void* workspace) override;
};

}  // namespace stoa::ops::cuda::emulation
