// The suite of ops/backend_suite.h on the kernels' own source, compiled for the block emulator: index
// arithmetic, reductions, masks and tails are proved without a GPU.
#include "ops/cuda/cuda_backend.h"

#include <cmath>
#include <cstring>

#include "device/host/host_device.h"
#include "ops/attention_cases.h"
#include "ops/backend_suite.h"
#include "ops/cuda/emulation/matmul.h"

namespace stoa::ops::testing {
namespace {

std::shared_ptr<Backend> make_emulated() {
  return std::make_shared<cuda::CudaBackend>(std::make_shared<cuda::emulation::HostMatmul>(), nullptr,
                                             DeviceKind::kHost, cuda::KernelChoice{.warpgroup_blocks = 3});
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

// Of up to 16 tokens, against sums in fp64; and each has the bits that it has alone.
TEST(CudaBackend, LinearLayersOfAFewTokens) {
  const auto backend = make_emulated();
  HostDevice device;
  const auto stream = device.create_stream();
  struct Case {
    std::int64_t tokens, rows, columns;
    DType type, result;
    bool bias;
  };
  for (const Case& c :
       {Case{1, 16, 32, DType::kBF16, DType::kBF16, false}, Case{5, 37, 72, DType::kBF16, DType::kBF16, true},
        Case{8, 19, 1064, DType::kF16, DType::kF16, true},
        Case{16, 50, 1800, DType::kBF16, DType::kF32, false},
        Case{11, 4112, 40, DType::kF16, DType::kF32, true}}) {
    SCOPED_TRACE(fmt::format("{} tokens, {} x {}", c.tokens, c.rows, c.columns));
    Tensors t;
    const TensorView x = t.random(c.type, {c.tokens, c.columns}), w = t.random(c.type, {c.rows, c.columns}),
                     bias = c.bias ? t.random(DType::kF32, {c.rows}) : TensorView{},
                     y = t.zeros(c.result, {c.tokens, c.rows}), one = t.zeros(c.result, {1, c.rows});
    std::vector<std::byte> workspace(1 << 16);
    const ops::Resources resources{*stream, workspace.data()};
    backend->execute(LinearForward{.x = x, .w = w, .bias = bias, .y = y}, resources);
    dispatch_float(c.type, [&]<class T>() {
      dispatch_float(c.result, [&]<class R>() {
        for (std::int64_t i = 0; i < c.tokens; ++i) {
          backend->execute(LinearForward{.x = x.slice(i, 1), .w = w, .bias = bias, .y = one}, resources);
          EXPECT_EQ(std::memcmp(one.data, y.slice(i, 1).data, one.bytes()), 0);
          for (std::int64_t r = 0; r < c.rows; ++r) {
            double sum = bias ? static_cast<double>(bias.as<float>()[r]) : 0;
            for (std::int64_t k = 0; k < c.columns; ++k)
              sum += static_cast<double>(static_cast<float>(x.row<T>(i)[k])) *
                     static_cast<double>(static_cast<float>(w.row<T>(r)[k]));
            const double error = c.result == DType::kF32 ? 1e-4 : 0.01;
            EXPECT_NEAR(static_cast<double>(static_cast<float>(y.row<R>(i)[r])), sum,
                        error * (1 + std::abs(sum)));
          }
        }
      });
    });
  }
}

TEST(CudaBackend, RefusesWhatItHasNoKernelFor) {
  const auto backend = make_emulated();
  EXPECT_THROW(static_cast<void>(backend->workspace_bytes(DivergencePart{})), ConfigError);
}

}  // namespace stoa::ops::testing
