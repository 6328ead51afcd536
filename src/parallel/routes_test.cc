#include "parallel/routes.h"

#include <gmock/gmock.h>

namespace stoa::parallel {
namespace {

using comm::Route;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Route> of_context(int ranks, ContextKind kind, int neighbours = 1) {
  return routes_of(grid::RankGrid({1, ranks, 1, 1, 1}), Group::kContext, {0, ranks, kind, neighbours});
}

TEST(Routes, OfStagesLeadBothWays) {
  const auto of_stages = [](int stages) {
    return routes_of(grid::RankGrid({2, 1, 1, 1, stages}), Group::kPipeline, {});
  };
  EXPECT_THAT(of_stages(1), IsEmpty());
  EXPECT_THAT(of_stages(2), ElementsAre(Route{0, 1}, Route{1, 0}));
  EXPECT_THAT(of_stages(3),
              ElementsAre(Route{0, 1}, Route{0, 2}, Route{1, 0}, Route{1, 2}, Route{2, 0}, Route{2, 1}));
  EXPECT_EQ(of_stages(8).size(), 16u);
}

TEST(Routes, OfAContextGoAroundItsRings) {
  EXPECT_THAT(of_context(2, ContextKind::kRing), ElementsAre(Route{0, 1}, Route{1, 0}));
  EXPECT_THAT(of_context(3, ContextKind::kRing), ElementsAre(Route{0, 1}, Route{1, 2}, Route{2, 0}));
  EXPECT_THAT(of_context(4, ContextKind::kHierarchical, 2),
              ElementsAre(Route{0, 2}, Route{1, 3}, Route{2, 0}, Route{3, 1}));
  EXPECT_THAT(of_context(6, ContextKind::kHierarchical, 2),
              ElementsAre(Route{0, 2}, Route{1, 3}, Route{2, 4}, Route{3, 5}, Route{4, 0}, Route{5, 1}));
}

TEST(Routes, NoneWhereCollectivesDo) {
  EXPECT_THAT(of_context(4, ContextKind::kAllToAll), IsEmpty());
  EXPECT_THAT(of_context(4, ContextKind::kAllGather), IsEmpty());
  EXPECT_THAT(of_context(4, ContextKind::kHierarchical, 4), IsEmpty());
  const grid::RankGrid grid({2, 2, 1, 2, 2});
  for (int g = 0; g < kGroups; ++g) {
    const Group group = static_cast<Group>(g);
    if (group == Group::kPipeline || group == Group::kContext) continue;
    EXPECT_THAT(routes_of(grid, group, {0, 2, ContextKind::kRing}), IsEmpty()) << name_of(group);
  }
}

}  // namespace
}  // namespace stoa::parallel
