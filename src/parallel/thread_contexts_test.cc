#include "parallel/thread_contexts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/nccl/fake_nccl.h"
#include "device/host/inline_stream.h"
#include "device/meta/meta_device.h"
#include "parallel/meta_contexts.h"

namespace stoa::parallel {
namespace {

TEST(ThreadContexts, EachAxisJoinsItsOwnRanks) {
  const grid::RankGrid grid({2, 1, 1, 3, 2});
  comm::ThreadWorld world(12);
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

TEST(ThreadContexts, CombinedGroupsJoinTheRanksOfTheirAxes) {
  const grid::RankGrid grid({2, 2, 1, 2, 3});  // 24 ranks
  EXPECT_EQ(members(grid, 9, Group::kDataContext), (std::vector<int>{9, 11, 13, 15}));
  EXPECT_EQ(members(grid, 9, Group::kModel), (std::vector<int>{0, 1, 8, 9, 16, 17}));
  EXPECT_TRUE(members(grid, 9, Group::kEmbedding).empty());  // the middle of three stages
  EXPECT_EQ(members(grid, 17, Group::kEmbedding), (std::vector<int>{1, 17}));
  EXPECT_EQ(members(grid, 17, Group::kWorld).size(), 24u);
  EXPECT_EQ(members(grid, 17, Group::kTensor), (std::vector<int>{16, 17}));
  EXPECT_EQ(members(grid, 9, Group::kExpert), (std::vector<int>{8, 9}));  // parts of each expert, as tp
  EXPECT_EQ(members(grid, 9, Group::kExpertData), (std::vector<int>{9, 11, 13, 15}));
  const grid::RankGrid experts({2, 2, 1, 2, 3}, {.tensor = 1, .expert = 4});
  EXPECT_EQ(members(experts, 9, Group::kExpert), (std::vector<int>{8, 9, 10, 11}));
  EXPECT_EQ(members(experts, 9, Group::kExpertData), (std::vector<int>{9, 13}));
  EXPECT_EQ(members(experts, 9, Group::kDataContext), (std::vector<int>{9, 11, 13, 15}));

  comm::ThreadWorld world(24);
  const std::vector<ParallelContext> contexts = make_contexts(world, grid);
  EXPECT_THROW(contexts[9].along(Group::kEmbedding), InternalError);
  world.run([&](int rank) {
    InlineStream stream;
    for (const Group group : {Group::kDataContext, Group::kEmbedding, Group::kModel, Group::kWorld}) {
      if (!contexts[rank].belongs_to(group)) continue;
      std::int64_t sum = rank, expected = 0;
      for (const int member : members(grid, rank, group)) expected += member;
      contexts[rank]
          .along(group)
          .all_reduce(TensorView(&sum, DType::kI64, {1}), comm::ReduceOp::kSum, stream)
          ->wait();
      EXPECT_EQ(sum, expected) << name_of(group) << " of rank " << rank;
    }
  });
}

// Processes tell the groups of one kind apart by their members alone (ProcessWorld::create).
TEST(Groups, OfOneKindHaveNoCommonMember) {
  for (const auto& [degrees, experts] :
       std::vector<std::pair<std::array<int, grid::kAxes>, grid::ExpertDegrees>>{{{1, 1, 1, 1, 1}, {}},
                                                                                 {{1, 1, 1, 1, 5}, {}},
                                                                                 {{2, 1, 1, 2, 3}, {1, 4}},
                                                                                 {{2, 2, 1, 2, 3}, {1, 4}},
                                                                                 {{3, 2, 1, 2, 4}, {2, 3}},
                                                                                 {{4, 2, 1, 3, 2}, {8, 3}}}) {
    const grid::RankGrid grid(degrees, experts);
    for (int g = 0; g < kGroups; ++g)
      for (int rank = 0; rank < grid.size(); ++rank) {
        const std::vector<int> own = members(grid, rank, static_cast<Group>(g));
        for (const int other : own)
          EXPECT_EQ(members(grid, other, static_cast<Group>(g)), own)
              << name_of(static_cast<Group>(g)) << " of ranks " << rank << " and " << other;
      }
  }
}

TEST(MetaContexts, StandWhereTheThreadsStand) {
  MetaDevice device;
  const grid::RankGrid grid({2, 1, 1, 2, 3});
  for (int rank = 0; rank < grid.size(); ++rank) {
    const ParallelContext context = make_meta_context(grid, rank, device);
    EXPECT_EQ(context.belongs_to(Group::kEmbedding), rank < 4 || rank >= 8);
    EXPECT_EQ(context.along(Group::kDataContext).size(), 2);
    EXPECT_EQ(context.along(Group::kWorld).rank(), rank);
  }
  EXPECT_EQ(make_meta_context(grid::RankGrid::single(), 0, device).along(Group::kWorld).size(), 1);
}

TEST(ThreadContexts, WorldAndGridMustAgree) {
  comm::ThreadWorld world(3);
  EXPECT_THROW(make_contexts(world, grid::RankGrid({2, 1, 1, 1, 1})), ConfigError);
}

TEST(ThreadContexts, RanksThatShareAGpuRecordNothing) {
  class Recorder final : public comm::suite::QueueDevice {
   public:
    std::unique_ptr<Stream> create_stream() override {
      return std::make_unique<comm::suite::NativeQueue>(true);
    }
  } device;
  comm::ThreadWorld world(2);
  EXPECT_THAT([&] { share_device(world, 0, device); },
              testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("graphs: ranks share the queue")));
}

}  // namespace
}  // namespace stoa::parallel
