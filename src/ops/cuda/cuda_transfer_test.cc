// The kernels by which ranks that share a GPU move and sum tensors, on the emulator.
#include "ops/cuda/cuda_transfer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "comm/communicator_suite.h"
#include "comm/rank_order_reduce.h"
#include "comm/threads/thread_world.h"
#include "device/host/inline_stream.h"

namespace stoa::ops::cuda {
namespace {

template <class T>
class CudaTransferOf : public ::testing::Test {};
using Types = ::testing::Types<double, float, bf16, f16, std::int64_t, std::int32_t, std::uint8_t>;
TYPED_TEST_SUITE(CudaTransferOf, Types);

TYPED_TEST(CudaTransferOf, CollectivesEqualSerialComputation) {
  for (const int size : {1, 2, 3}) {
    comm::ThreadWorld world(size);
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    auto comms = world.create("tp", ranks);
    world.run([&](int rank) {
      CudaTransfer transfer;
      InlineStream side, stream;
      world.share_device(rank, {DeviceKind::kHost, &transfer, &side});
      for (const std::int64_t n : {1, 7, 515})
        comm::suite::collectives<TypeParam>(*comms[rank], n, false, stream);
    });
  }
}

// Random bits, so that rounding, infinities, NaN and wrapping are met.
TYPED_TEST(CudaTransferOf, SumsHaveTheBitsOfTheHost) {
  using T = TypeParam;
  constexpr std::int64_t kCount = 3001;
  std::vector<std::vector<T>> inputs(3, std::vector<T>(kCount));
  std::uint64_t state = 88172645463325252u;
  for (auto& input : inputs)
    for (T& x : input) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      std::memcpy(static_cast<void*>(&x), &state, sizeof x);
    }
  const std::vector<const void*> in{inputs[0].data(), inputs[1].data(), inputs[2].data()};
  for (const comm::ReduceOp op : {comm::ReduceOp::kSum, comm::ReduceOp::kMax}) {
    std::vector<T> host(kCount), gpu(kCount), again(kCount);
    void* const host_out = host.data();
    const std::vector<void*> gpu_out{gpu.data(), again.data()};
    comm::reduce_in_rank_order(dtype_of<T>(), op, in, {&host_out, 1}, kCount);
    InlineStream stream;
    CudaTransfer().reduce(dtype_of<T>(), op == comm::ReduceOp::kMax, in, gpu_out, kCount, stream);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const auto nan = [](T value) {
        const auto x = static_cast<typename comm::suite::Wide<T>::Type>(value);
        return x != x;
      };
      if (nan(host[i])) {
        EXPECT_TRUE(nan(gpu[i])) << i;  // which NaN is the processor's own choice
        continue;
      }
      EXPECT_EQ(std::memcmp(&host[i], &gpu[i], sizeof(T)), 0) << i;
    }
    EXPECT_EQ(std::memcmp(gpu.data(), again.data(), kCount * sizeof(T)), 0);
  }
}

TEST(CudaTransfer, CopiesAnyBytesAtAnyAddress) {
  std::vector<unsigned char> from(3000), to(3000);
  std::iota(from.begin(), from.end(), static_cast<unsigned char>(0));
  InlineStream stream;
  for (const std::size_t shift : {0, 1, 2, 4, 16})
    for (const std::size_t bytes : {0, 1, 6, 20, 2048}) {
      std::fill(to.begin(), to.end(), static_cast<unsigned char>(0xee));
      CudaTransfer().copy(to.data() + shift, from.data() + 2 * shift, bytes, stream);
      EXPECT_EQ(std::memcmp(to.data() + shift, from.data() + 2 * shift, bytes), 0);
      EXPECT_EQ(to[shift + bytes], 0xee);
      EXPECT_TRUE(std::all_of(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(shift),
                              [](unsigned char x) { return x == 0xee; }));
    }
}

TEST(CudaTransfer, RefusesMoreRanksThanALaunchTakes) {
  std::vector<float> x(4);
  const std::vector<const void*> in(65, x.data());
  void* const out = x.data();
  InlineStream stream;
  EXPECT_THROW(CudaTransfer().reduce(DType::kF32, false, in, {&out, 1}, 4, stream), DeviceError);
}

}  // namespace
}  // namespace stoa::ops::cuda
