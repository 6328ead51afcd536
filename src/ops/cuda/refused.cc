#include "ops/cuda/cuda_backend.h"

namespace stoa::ops::cuda {
namespace {

[[noreturn]] void refuse(const char* what) {
  fail<ConfigError>("{}: the GPU backend has no kernel for it yet; use the CPU (--backend cpu)", what);
}

constexpr const char *kDistillation = "distillation (model.distill)",
                     *kCache = "keys and values in tables of blocks";

}  // namespace

void CudaBackend::execute(const DivergencePart&, Resources) { refuse(kDistillation); }
void CudaBackend::execute(const DivergenceSums&, Resources) { refuse(kDistillation); }
void CudaBackend::execute(const DivergenceMerge&, Resources) { refuse(kDistillation); }
void CudaBackend::execute(const KeptPart&, Resources) { refuse(kDistillation); }
void CudaBackend::execute(const KeptMerge&, Resources) { refuse(kDistillation); }
void CudaBackend::execute(const ScatterRows&, Resources) { refuse(kCache); }
std::size_t CudaBackend::workspace_bytes(const ScatterRows&) const { refuse(kCache); }
std::size_t CudaBackend::workspace_bytes(const DivergencePart&) const { refuse(kDistillation); }
std::size_t CudaBackend::workspace_bytes(const KeptPart&) const { refuse(kDistillation); }

}  // namespace stoa::ops::cuda
