// Both kernels of products with quantised matrices, whichever the backend would choose: the same bits. What
// the backend chooses is compared with the reference in ops/backend_quantised_test.cc.
#include "ops/cuda/quantised_linear.h"

#include <gtest/gtest.h>

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/emulation/matmul.h"
#include "ops/cuda/kernels/quantised_linear.h"
#include "ops/quantised_cases.h"

namespace stoa::ops::testing {
namespace {

cuda::CudaBackend emulated() {
  return {std::make_shared<cuda::emulation::HostMatmul>(), nullptr, DeviceKind::kHost};
}

// For few tokens one kernel, for many the other: their number and that of rows decide.
TEST(QuantisedKernels, AreChosenByTokensAndRows) {
  EXPECT_FALSE(cuda::has_many(1, 1 << 18));
  EXPECT_FALSE(cuda::has_many(32, 1 << 18));
  EXPECT_FALSE(cuda::has_many(32, 1 << 20));
  EXPECT_FALSE(cuda::has_many(128, 4096));
  EXPECT_TRUE(cuda::has_many(512, 4096));
  EXPECT_TRUE(cuda::has_many(128, 14336));
  EXPECT_TRUE(cuda::has_many(2048, 1024));
}

// Workspaces are made for as many tokens as there may be.
TEST(QuantisedKernels, MoreTokensNeedNoLessRoom) {
  const cuda::CudaBackend backend = emulated();
  std::size_t before = 0;
  for (std::int64_t tokens = 1; tokens < 700; ++tokens) {
    const quant::MatrixShape shape{256, 1, {{{BlockType::kQ4_K, 17000}}}};
    const std::size_t bytes = backend.workspace_bytes(
        QuantisedLinear{TensorView(nullptr, DType::kF32, {tokens, 256}), {}, shape, {}, {}});
    EXPECT_GE(bytes, before) << tokens;
    before = bytes;
  }
}

TEST(QuantisedKernels, GiveTheSameBits) {
  const cuda::CudaBackend backend = emulated();
  for (const BlockType type : kQuantisedTypes)
    for (const auto& [x, tokens, columns, rows, parts] :
         {std::tuple{DType::kBF16, 70, 9 * 256, 37, 1}, std::tuple{DType::kF32, 130, 256, 140, 3}}) {
      const std::int64_t odd = quant::format_of(type).numbers == 256 ? 0 : 32;
      SCOPED_TRACE(fmt::format("{} {}: {} tokens", quant::format_of(type).name, name_of(x), tokens));
      Tensors t;
      const quant::MatrixShape shape{
          columns + odd, parts, {{{type, rows}, {BlockType::kQ8_0, 16}, {type, 5}}}};
      QuantisedLinear op{t.random(x, {tokens, columns + odd}, 1, 5), quantised(t, shape), shape,
                         t.random(DType::kF32, {shape.rows()}),
                         t.empty(DType::kF32, {tokens, shape.rows()}, 3)};
      InlineStream stream;
      AlignedBytes workspace(backend.workspace_bytes(op));
      cuda::run_quantised_linear(op, false, {stream, workspace.data()});
      const Values few = load(op.y);
      op.y = t.empty(DType::kF32, {tokens, shape.rows()}, 3);
      cuda::run_quantised_linear(op, true, {stream, workspace.data()});
      const Values many = load(op.y);
      for (std::size_t i = 0; i < few.size(); ++i) ASSERT_EQ(few[i], many[i]) << i;
      t.expect_guards();
    }
}

}  // namespace
}  // namespace stoa::ops::testing
