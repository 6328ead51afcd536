#include "parallel/thread_gpus.h"

#include <gmock/gmock.h>

#include <atomic>

#include "comm/nccl/fake_nccl.h"
#include "parallel/thread_contexts.h"

namespace stoa::parallel {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// How many of `ranks`, on so many GPUs in turn, find that each has its own.
int owners(int ranks, int gpus) {
  comm::ThreadWorld world(ranks);
  const std::vector<ParallelContext> contexts = make_contexts(world, grid::RankGrid({1, 1, 1, ranks, 1}));
  ThreadGpus devices(ranks);
  std::atomic<int> owners = 0;
  world.run([&](int rank) {
    const std::string identity = fmt::format("bus {}", rank % gpus);
    if (devices.own_each(identity, contexts[static_cast<std::size_t>(rank)].along(Group::kWorld))) ++owners;
  });
  return owners;
}

TEST(ThreadGpus, EachRankHasItsOwnOrAllShareOne) {
  EXPECT_EQ(owners(4, 4), 4);
  EXPECT_EQ(owners(4, 1), 0);
}

TEST(ThreadGpus, RefusesToShareSome) {
  EXPECT_THAT(
      [] { owners(6, 4); },
      ThrowsMessage<ConfigError>(HasSubstr(
          "6 ranks that are threads on 4 GPUs: each has a GPU to itself, or all share one. Use --ranks "
          "4, or --cuda device=0")));
}

TEST(Join, TensorsOfOwnGpusGoByNccl) {
  for (const bool check : {false, true}) {
    const comm::suite::FakeNccl fake;
    const grid::RankGrid grid({2, 1, 1, 1, 2});
    comm::ThreadWorld world(4);
    auto ends = make_ends(world, grid, check);
    world.run([&](int rank) {
      comm::suite::NativeQueueDevice device;
      const auto stream = device.create_stream();
      const OwnGpu gpu{
          std::make_shared<comm::NcclRank>(comm::suite::FakeNccl::api(), device, std::chrono::seconds(60)),
          {}};
      const ParallelContext context = join(grid, rank, std::move(ends[static_cast<std::size_t>(rank)]), &gpu);
      float sum = static_cast<float>(rank), other = -1;
      const auto on = [](float& x) { return TensorView(&x, DType::kF32, {1}, DeviceKind::kCuda); };
      comm::Communicator& stages = context.along(Group::kPipeline);
      const int peer = 1 - stages.rank();
      auto sent = stages.send(on(sum), peer, *stream);
      stages.receive(on(other), peer, *stream)->wait();
      sent->wait();
      stream->synchronize();
      EXPECT_EQ(other, static_cast<float>((rank + 2) % 4));
      context.along(Group::kWorld).all_reduce(on(sum), comm::ReduceOp::kSum, *stream)->wait();
      stream->synchronize();
      EXPECT_EQ(sum, 6.0f);
    });
    EXPECT_FALSE(comm::suite::FakeNccl::calls.empty());
  }
}

}  // namespace
}  // namespace stoa::parallel
