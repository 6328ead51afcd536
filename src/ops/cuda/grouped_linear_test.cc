// Products of grouped layers on the emulator, by warps and by warpgroups: several tiles in every direction,
// more steps than places in shared memory, experts without rows, rows of nobody.
#include "ops/cuda/kernels/grouped_linear.h"

#include <gtest/gtest.h>

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/emulation/matmul.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {
namespace {

std::shared_ptr<Backend> with_warpgroup_blocks(int blocks) {
  return std::make_shared<cuda::CudaBackend>(std::make_shared<cuda::emulation::HostMatmul>(), nullptr,
                                             DeviceKind::kHost,
                                             cuda::KernelChoice{.warpgroup_blocks = blocks});
}

struct GroupedResults {
  TensorView y, dx, dw, added;
};

// `rows` of each expert, behind them those of nobody.
struct GroupedLayer {
  GroupedLayer(DType type, std::int64_t k, std::int64_t n, const std::vector<std::int64_t>& rows,
               std::int64_t nobody)
      : type(type), k(k), n(n), experts(std::ssize(rows)) {
    std::vector<std::int32_t> ids;
    for (std::int64_t e = 0; e < experts; ++e)
      ids.insert(ids.end(), static_cast<std::size_t>(rows[e]), static_cast<std::int32_t>(e));
    ids.insert(ids.end(), static_cast<std::size_t>(nobody), -1);
    count = std::ssize(ids);
    sorted = t.empty(DType::kI32, {count, 1});
    std::copy(ids.begin(), ids.end(), sorted.as<std::int32_t>());
    x = t.random(type, {count, k}), dy = t.random(type, {count, n});
    w = t.random(type, {experts * n, k}, 0.1), before = t.random(DType::kF32, w.shape);
  }

  GroupedResults run(Backend& backend, bool compare) {
    const GroupedResults out{t.zeros(type, {count, n}), t.zeros(type, {count, k}),
                             t.empty(DType::kF32, w.shape), t.copy(before)};
    const GroupedLinearForward forward{x, w, sorted, out.y};
    const GroupedLinearBackwardInput input{dy, w, sorted, out.dx};
    const GroupedLinearBackwardWeight weight{x, dy, sorted, out.dw, false},
        adds{x, dy, sorted, out.added, true};
    if (compare) {
      expect_like_reference(backend, forward);
      expect_like_reference(backend, input);
      expect_like_reference(backend, weight);
      expect_like_reference(backend, adds);
      t.expect_guards();
      return out;
    }
    run_on(backend, forward);
    run_on(backend, input);
    run_on(backend, weight);
    run_on(backend, adds);
    t.expect_guards();
    return out;
  }

  Tensors t;
  const DType type;
  const std::int64_t k, n, experts;
  std::int64_t count = 0;
  TensorView sorted, x, dy, w, before;
};

}  // namespace

TEST(GroupedLinear, TilesOfWarpsAndOfWarpgroups) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(name_of(type));
    GroupedLayer layer(type, 296, 264, {130, 0, 1, 257, 0, 64}, 3);
    layer.run(*with_warpgroup_blocks(0), true);
    layer.run(*with_warpgroup_blocks(4), true);
  }
}

// Which block computes a tile does not matter.
TEST(GroupedLinear, SameBitsOfAnyNumberOfBlocks) {
  GroupedLayer layer(DType::kBF16, 72, 520, {0, 190, 33, 0}, 0);
  const GroupedResults one = layer.run(*with_warpgroup_blocks(1), false);
  const GroupedResults many = layer.run(*with_warpgroup_blocks(1000), false);
  EXPECT_EQ(load(one.y), load(many.y));
  EXPECT_EQ(load(one.dx), load(many.dx));
  EXPECT_EQ(load(one.dw), load(many.dw));
  EXPECT_EQ(load(one.added), load(many.added));
}

TEST(GroupedLinear, DevicesWithWarpgroups) {
  EXPECT_TRUE(cuda::has_warpgroup_products(9, 0));
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {10, 0}, {12, 0}})
    EXPECT_FALSE(cuda::has_warpgroup_products(major, minor)) << major << minor;
}

}  // namespace stoa::ops::testing
