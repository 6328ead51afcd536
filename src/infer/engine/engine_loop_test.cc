#include "infer/engine/engine_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "infer/engine/draft_model.h"
#include "infer/engine/simulated_model.h"

namespace stoa::infer {
namespace {

struct LoopAnswer {
  int tokens = 0;
  Event end;
  Listener listener() {
    return [this](const Event& event) {
      if (event.kind == Event::Kind::kToken) ++tokens;
      if (event.kind == Event::Kind::kEnd) end = event;
      return true;
    };
  }
};

TEST(EngineLoop, AnswersManyThreads) {
  SimulatedModel model(kSmallLimits);
  Engine engine(model);
  EngineLoop loop(engine);
  std::vector<std::thread> threads;
  std::atomic<int> ends{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        Request r{.prompt = {t, i}, .sampling = {}, .max_tokens = 10};
        const RequestId id = loop.submit(r, [&](const Event& e) {
          if (e.kind == Event::Kind::kEnd) ++ends;
          return true;
        });
        if (i % 5 == 0) loop.cancel(id);
        loop.counters();
      }
      EXPECT_THROW(loop.submit({.prompt = {}, .sampling = {}}, [](const Event&) { return true; }), DataError);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(loop.wait_idle(std::chrono::seconds(20)));
  EXPECT_EQ(ends, 80);
  EXPECT_EQ(loop.counters().blocks_used, 0);
}

TEST(EngineLoop, EndsWhatIsLeftWhenItGoes) {
  SimulatedModel model(kSmallLimits);
  Engine engine(model);
  std::atomic<int> ends{0};
  {
    EngineLoop loop(engine);
    for (int i = 0; i < 10; ++i)
      loop.submit({.prompt = {1}, .sampling = {}, .max_tokens = 60}, [&](const Event& e) {
        if (e.kind == Event::Kind::kEnd) ++ends;
        return true;
      });
  }
  EXPECT_EQ(ends, 10);
}

// A GPU must be chosen in every thread that uses it.
TEST(EngineLoop, ItsThreadBeginsWithTheDevicesOfTheModels) {
  struct Bound final : SimulatedModel {
    Bound() : SimulatedModel(kSmallLimits) {}
    std::thread::id chosen = std::this_thread::get_id();
    void use_in_this_thread() override { chosen = std::this_thread::get_id(); }
    std::span<const float> run(const PassPlan& plan) override {
      EXPECT_EQ(chosen, std::this_thread::get_id());
      return SimulatedModel::run(plan);
    }
  } model;
  auto draft = std::make_unique<Bound>();
  const Bound& guessing = *draft;
  Engine engine(model, std::make_unique<DraftModel>(std::move(draft)));
  EngineLoop loop(engine);
  LoopAnswer answer;
  loop.submit({.prompt = {1}, .sampling = {}, .max_tokens = 8}, answer.listener());
  ASSERT_TRUE(loop.wait_idle(std::chrono::seconds(20)));
  EXPECT_EQ(answer.tokens, 8);
  EXPECT_EQ(guessing.chosen, model.chosen);
  EXPECT_NE(model.chosen, std::this_thread::get_id());
}

// A pass that throws ends its requests with a message, and the loop continues.
TEST(EngineLoop, AFailedPassEndsItsRequests) {
  struct Failing final : SimulatedModel {
    Failing() : SimulatedModel(kSmallLimits) {}
    bool fail = true;
    std::span<const float> run(const PassPlan& plan) override {
      if (std::exchange(fail, false)) throw DataError("no such luck");
      return SimulatedModel::run(plan);
    }
  } model;
  Engine engine(model);
  EngineLoop loop(engine);
  LoopAnswer first, second;
  const Request request{.prompt = {1}, .sampling = {}, .max_tokens = 3};
  loop.submit(request, first.listener());
  ASSERT_TRUE(loop.wait_idle(std::chrono::seconds(20)));
  loop.submit(request, second.listener());
  ASSERT_TRUE(loop.wait_idle(std::chrono::seconds(20)));
  EXPECT_EQ(first.end.reason, EndReason::kFailed);
  EXPECT_EQ(first.end.message, "no such luck");
  EXPECT_EQ(second.tokens, 3);
  EXPECT_EQ(loop.counters().blocks_used, 0);
}

}  // namespace
}  // namespace stoa::infer
