#include "optim/batch_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace stoa::optim {
namespace {

TEST(BatchPlan, ConstantWithoutRamp) {
  const BatchPlan plan(16, 4, std::nullopt);
  EXPECT_EQ(plan.batch_at(0), 16);
  EXPECT_EQ(plan.samples_after(10), 160);
  EXPECT_EQ(plan.steps_for(161), 11);
}

TEST(BatchPlan, RampFollowsMegatronsRule) {
  const BatchPlan plan(16, 4, std::vector<std::int64_t>{4, 4, 30});  // 3 increments, 10 samples each
  std::int64_t consumed = 0;
  std::vector<std::int64_t> sizes;
  for (int step = 0; step < 8; ++step) {
    EXPECT_EQ(plan.samples_after(step), consumed);
    EXPECT_EQ(plan.steps_for(consumed), step);
    sizes.push_back(plan.batch_at(consumed));
    consumed += sizes.back();
  }
  // consumed 0 4 8 12 20 32 48 64
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{4, 4, 4, 8, 12, 16, 16, 16}));
}

TEST(BatchPlan, SizesThatDoNotDivideAreRefusedWithTheNearest) {
  EXPECT_THROW(BatchPlan(18, 4, std::nullopt), ConfigError);
  EXPECT_THROW(BatchPlan(16, 4, std::vector<std::int64_t>{4, 5, 30}), ConfigError);
  try {
    BatchPlan(18, 4, std::nullopt);
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("16 and 20"), std::string::npos) << e.what();
  }
}

TEST(BatchPlan, GoesOnFromOtherSizes) {
  BatchPlan plan(8, 4, std::nullopt);
  plan.go_on_after(50, 800);  // 16 samples each
  EXPECT_EQ(plan.samples_after(50), 800);
  EXPECT_EQ(plan.samples_after(25), 400);
  EXPECT_EQ(plan.samples_after(100), 1200);
  EXPECT_EQ(plan.steps_for(1200), 100);
  EXPECT_EQ(plan.steps_for(400), 25);
  BatchPlan same(16, 4, std::vector<std::int64_t>{4, 4, 30});
  same.go_on_after(3, 12);
  EXPECT_EQ(same.samples_after(2), 8);
  EXPECT_EQ(same.steps_for(8), 2);
}

TEST(BatchPlan, NamesEverySizeThatOccurs) {
  const BatchPlan plan(16, 4, std::vector<std::int64_t>{4, 4, 30});
  std::string text;
  for (const auto& [step, samples] : plan.sizes()) text += fmt::format("{}:{} ", step, samples);
  EXPECT_EQ(text, "1:4 4:8 5:12 6:16 ");
  EXPECT_EQ(BatchPlan(16, 4, std::nullopt).sizes().size(), 1u);
}

}  // namespace
}  // namespace stoa::optim
