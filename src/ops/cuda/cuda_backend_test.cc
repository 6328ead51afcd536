// The suite of ops/backend_suite.h on the kernels' own source, compiled for the block emulator: index
// arithmetic, reductions, masks and tails are proved without a GPU.
#include "ops/cuda/cuda_backend.h"

#include "ops/backend_suite.h"
#include "ops/cuda/emulation/matmul.h"

namespace stoa::ops::testing {
namespace {

std::shared_ptr<Backend> make_emulated() {
  return std::make_shared<cuda::CudaBackend>(std::make_shared<cuda::emulation::HostMatmul>(), nullptr,
                                             DeviceKind::kHost);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    CudaKernels, BackendTest,
    ::testing::Values(BackendCase{
        .name = "emulated", .make = make_emulated, .rounds_bias = true, .blocks = false}),
    BackendCaseName());

// At wiring: a dry run asks for workspaces.
TEST(CudaBackend, RefusesWhatItHasNoKernelFor) {
  const auto backend = make_emulated();
  EXPECT_THROW(static_cast<void>(backend->workspace_bytes(DivergencePart{})), ConfigError);
  EXPECT_THROW(static_cast<void>(backend->workspace_bytes(PackedLinearForward{})), ConfigError);
}

}  // namespace stoa::ops::testing
