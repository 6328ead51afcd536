// The suite of ops/backend_suite.h on the kernels' own source, compiled for the block emulator: index
// arithmetic, reductions, masks and tails are proved without a GPU.
#include "ops/cuda/cuda_backend.h"

#include "ops/attention_cases.h"
#include "ops/backend_suite.h"
#include "ops/cuda/emulation/matmul.h"

namespace stoa::ops::testing {
namespace {

std::shared_ptr<Backend> make_emulated() {
  return std::make_shared<cuda::CudaBackend>(std::make_shared<cuda::emulation::HostMatmul>(), nullptr,
                                             DeviceKind::kHost, 3);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(CudaKernels, BackendTest,
                         ::testing::Values(BackendCase{
                             .name = "emulated", .make = make_emulated, .rounds_bias = true}),
                         BackendCaseName());

// At wiring: a dry run asks for workspaces.
TEST(CudaBackend, RefusesHeadsThatAreTooLarge) {
  const auto backend = make_emulated();
  const auto refuses = [&](DType type, std::int64_t d, bool latents) {
    Tensors t;
    AttentionForward op = with_blocks(t, make_attention(t, {"", 1, 1, d, {{1, 3}}}, type), 4);
    if (latents) op.v = op.k;
    try {
      static_cast<void>(backend->workspace_bytes(op));
      return false;
    } catch (const ConfigError&) {
      return true;
    }
  };
  EXPECT_FALSE(refuses(DType::kBF16, 256, false));
  EXPECT_TRUE(refuses(DType::kBF16, 264, false));
  EXPECT_FALSE(refuses(DType::kBF16, 576, true));
  EXPECT_TRUE(refuses(DType::kBF16, 584, true));
  EXPECT_FALSE(refuses(DType::kF32, 576, false));
  EXPECT_TRUE(refuses(DType::kF32, 577, false));
  Tensors t;
  const AttentionForward op = make_attention(t, {"", 1, 1, 264, {{3, 3}}}, DType::kF32);
  EXPECT_THROW(static_cast<void>(backend->workspace_bytes(op)), ConfigError);
}

TEST(CudaBackend, RefusesWhatItHasNoKernelFor) {
  const auto backend = make_emulated();
  EXPECT_THROW(static_cast<void>(backend->workspace_bytes(DivergencePart{})), ConfigError);
}

}  // namespace stoa::ops::testing
