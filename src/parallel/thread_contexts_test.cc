#include "parallel/thread_contexts.h"

#include <gtest/gtest.h>

#include "device/host/inline_stream.h"

namespace stoa::parallel {
namespace {

TEST(ThreadContexts, EachAxisJoinsItsOwnRanks) {
  const grid::RankGrid grid({2, 1, 1, 3, 2});
  comm::ThreadWorld world(12, std::chrono::seconds(60));
  const std::vector<ParallelContext> contexts = make_contexts(world, grid);
  ASSERT_EQ(contexts.size(), 12u);
  EXPECT_EQ(contexts[5].along(Axis::kTensor).label(), "tp group of rank 5");
  world.run([&](int rank) {
    InlineStream stream;
    for (const Axis axis : {Axis::kTensor, Axis::kContext, Axis::kData, Axis::kPipeline}) {
      comm::Communicator& group = contexts[rank].along(axis);
      EXPECT_EQ(group.rank(), contexts[rank].coordinate(axis));
      std::int64_t sum = rank, expected = 0;
      for (const int member : grid.group(rank, {axis})) expected += member;
      group.all_reduce(TensorView(&sum, DType::kI64, {1}), comm::ReduceOp::kSum, stream)->wait();
      EXPECT_EQ(sum, expected) << name_of(axis) << " of rank " << rank;
    }
  });
}

TEST(ThreadContexts, WorldAndGridMustAgree) {
  comm::ThreadWorld world(3);
  EXPECT_THROW(make_contexts(world, grid::RankGrid({2, 1, 1, 1, 1})), ConfigError);
}

}  // namespace
}  // namespace stoa::parallel
