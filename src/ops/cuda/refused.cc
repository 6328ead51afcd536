#include "ops/cuda/cuda_backend.h"

namespace stoa::ops::cuda {
namespace {

[[noreturn]] void refuse() {
  fail<ConfigError>(
      "distillation (model.distill): the GPU backend has no kernel for it yet; use the CPU (--backend cpu)");
}

}  // namespace

void CudaBackend::execute(const GroupedQuantisedLinear&, Resources) {
  fail<InternalError>(
      "experts in the numbers of a quantised file reached a GPU, whose backend has no kernel for them");
}

void CudaBackend::execute(const DivergencePart&, Resources) { refuse(); }
void CudaBackend::execute(const DivergenceSums&, Resources) { refuse(); }
void CudaBackend::execute(const DivergenceMerge&, Resources) { refuse(); }
void CudaBackend::execute(const KeptPart&, Resources) { refuse(); }
void CudaBackend::execute(const KeptMerge&, Resources) { refuse(); }
std::size_t CudaBackend::workspace_bytes(const DivergencePart&) const { refuse(); }
std::size_t CudaBackend::workspace_bytes(const KeptPart&) const { refuse(); }

}  // namespace stoa::ops::cuda
