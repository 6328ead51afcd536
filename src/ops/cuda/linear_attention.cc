// Linear attention has no kernels on GPUs. A rank hears of it when it is wired: what a step needs is asked
// for then.
#include "ops/cuda/cuda_backend.h"

namespace stoa::ops::cuda {
namespace {

[[noreturn]] void refuse_linear_attention(const char* op) {
  fail<ConfigError>(
      "{}: layers of linear attention (model.linear_attention) have no GPU kernels yet: train and run this "
      "model with "
      "--backend cpu",
      op);
}

}  // namespace

std::size_t CudaBackend::workspace_bytes(const ShortConvForward&) const {
  refuse_linear_attention(ShortConvForward::kName);
}
std::size_t CudaBackend::workspace_bytes(const GatedDeltaForward&) const {
  refuse_linear_attention(GatedDeltaForward::kName);
}
void CudaBackend::execute(const ShortConvForward&, Resources) {
  refuse_linear_attention(ShortConvForward::kName);
}
void CudaBackend::execute(const ShortConvBackward&, Resources) {
  refuse_linear_attention(ShortConvBackward::kName);
}
void CudaBackend::execute(const GatedDeltaForward&, Resources) {
  refuse_linear_attention(GatedDeltaForward::kName);
}
void CudaBackend::execute(const GatedDeltaBackward&, Resources) {
  refuse_linear_attention(GatedDeltaBackward::kName);
}

}  // namespace stoa::ops::cuda
