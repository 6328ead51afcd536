#include "serve/load_policy.h"

#include <gmock/gmock.h>

#include <random>
#include <utility>
#include <vector>

namespace stoa::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kNever = std::numeric_limits<double>::infinity();

OfferedState idle_model(double bytes, double last_used) {
  return {.loaded = true, .bytes = bytes, .last_used = last_used};
}
OfferedState busy_model(double bytes, double last_used) {
  return {.loaded = true, .bytes = bytes, .in_use = 1, .last_used = last_used};
}
OfferedState wanted_model(double bytes, double since) {
  return {.bytes = bytes, .waiting = 1, .waiting_since = since};
}

TEST(LoadPolicy, NothingIsLoadedThatNobodyAskedFor) {
  const std::vector<OfferedState> models(3);
  const LoadDecision d = decide_loads(models, {}, 5);
  EXPECT_FALSE(d.load);
  EXPECT_THAT(d.unload, IsEmpty());
  EXPECT_EQ(d.again, kNever);
}

TEST(LoadPolicy, WhoAskedFirstIsLoadedFirst) {
  const std::vector<OfferedState> models{wanted_model(1, 3), wanted_model(1, 2), idle_model(1, 0)};
  const LoadDecision d = decide_loads(models, {}, 5);
  EXPECT_EQ(d.load, 1u);
  EXPECT_THAT(d.unload, IsEmpty());
}

TEST(LoadPolicy, TheLeastRecentlyUsedIdleModelsMakeRoomAndNoMoreThanNeeded) {
  const std::vector<OfferedState> models{idle_model(4, 3), idle_model(4, 1), busy_model(4, 0),
                                         idle_model(4, 2), wanted_model(6, 4)};
  LoadDecision d = decide_loads(models, {.memory = 16}, 5);
  EXPECT_THAT(d.unload, ElementsAre(1, 3));
  EXPECT_EQ(d.load, 4u);
  EXPECT_THAT(d.leaving, IsEmpty());
  d = decide_loads(models, {.memory = 18}, 5);
  EXPECT_THAT(d.unload, ElementsAre(1));
  d = decide_loads(models, {.memory = 22}, 5);
  EXPECT_THAT(d.unload, IsEmpty());
  EXPECT_EQ(d.load, 4u);
}

TEST(LoadPolicy, ABusyModelIsNeverUnloadedButTakesNothingNewWhereItsRoomIsNeeded) {
  std::vector<OfferedState> models{busy_model(4, 3), busy_model(4, 1), wanted_model(4, 4)};
  LoadDecision d = decide_loads(models, {.memory = 8, .unload_after = 0}, 50);
  EXPECT_THAT(d.unload, IsEmpty());
  EXPECT_FALSE(d.load);
  EXPECT_THAT(d.leaving, ElementsAre(1));
  // Requests wait for it now; it leaves all the same, since the other was asked for before.
  models[1].in_use = 0;
  models[1].waiting = 2;
  models[1].waiting_since = 5;
  d = decide_loads(models, {.memory = 8}, 50);
  EXPECT_THAT(d.unload, ElementsAre(1));
  EXPECT_EQ(d.load, 2u);
  // Nobody wants the other any more: it stays.
  models[2].waiting = 0;
  d = decide_loads(models, {.memory = 8}, 50);
  EXPECT_THAT(d.unload, IsEmpty());
  EXPECT_THAT(d.leaving, IsEmpty());
}

TEST(LoadPolicy, AModelThatNeverFitsIsNamedAndHoldsUpNobody) {
  const std::vector<OfferedState> models{
      wanted_model(9, 1), wanted_model(4, 2), {.loaded = true, .stays = true, .bytes = 2}};
  const LoadDecision d = decide_loads(models, {.memory = 10}, 5);
  EXPECT_THAT(d.too_large, ElementsAre(0));
  EXPECT_EQ(d.load, 1u);
}

TEST(LoadPolicy, IdleModelsLeaveWhenTheirTimeIsOver) {
  const std::vector<OfferedState> models{
      idle_model(1, 10), idle_model(1, 20), busy_model(1, 0), {.loaded = true, .stays = true}};
  LoadDecision d = decide_loads(models, {.unload_after = 30}, 39);
  EXPECT_THAT(d.unload, IsEmpty());
  EXPECT_EQ(d.again, 40);
  d = decide_loads(models, {.unload_after = 30}, 40);
  EXPECT_THAT(d.unload, ElementsAre(0));
  EXPECT_EQ(d.again, 50);
}

// Random requests: whatever happens, the memory is kept, no model leaves while it answers, and every request
// is answered.
TEST(LoadPolicy, RandomRequestsKeepTheMemoryAndAllEnd) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    const LoadRules rules{.memory = 10, .unload_after = 1.0 + below(20)};
    std::vector<OfferedState> models(2 + below(4));
    std::vector<bool> leaving(models.size());
    for (OfferedState& model : models) model.bytes = 1 + below(10);
    std::int64_t asked = 0, answered = 0;
    double now = 0;
    for (int step = 0; step < 1000 || (answered < asked && step < 50000); ++step) {
      now += 1;
      const bool more = step < 1000;
      OfferedState& model = models[below(static_cast<unsigned>(models.size()))];
      const auto at = static_cast<std::size_t>(&model - models.data());
      if (more && below(2) == 0) {
        ++asked;
        if (model.loaded && !leaving[at]) {
          ++model.in_use;
          model.last_used = now;
        } else if (model.waiting++ == 0) {
          model.waiting_since = now;
        }
      } else if (model.in_use > 0) {
        --model.in_use;
        ++answered;
        model.last_used = now;
      }
      const LoadDecision d = decide_loads(models, rules, now);
      EXPECT_THAT(d.too_large, IsEmpty());
      for (const std::size_t i : d.unload) {
        EXPECT_TRUE(models[i].loaded);
        EXPECT_EQ(models[i].in_use, 0);
        models[i].loaded = false;
      }
      if (d.load) models[*d.load].loaded = true, models[*d.load].last_used = now;
      leaving.assign(models.size(), false);
      for (const std::size_t i : d.leaving) leaving[i] = true;
      double used = 0;
      for (std::size_t i = 0; i < models.size(); ++i) {
        if (!models[i].loaded) continue;
        used += models[i].bytes;
        if (!leaving[i]) models[i].in_use += std::exchange(models[i].waiting, 0);
      }
      EXPECT_LE(used, rules.memory);
    }
    EXPECT_EQ(answered, asked) << seed;
  }
}

}  // namespace
}  // namespace stoa::serve
