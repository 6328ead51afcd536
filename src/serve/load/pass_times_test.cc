#include "serve/load/pass_times.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "infer/engine/simulated_model.h"

namespace stoa::serve {
namespace {

// Its passes take 2 us for each token that an answer's token attends to.
class SlowReader final : public infer::SimulatedModel {
 public:
  using SimulatedModel::SimulatedModel;
  std::span<const float> run(const infer::PassPlan& plan) override {
    std::int64_t read = 0;
    for (const infer::PassSegment& segment : plan.segments)
      if (segment.tokens.size() == 1) read += segment.begin;
    std::this_thread::sleep_for(std::chrono::microseconds(2 * read));
    return SimulatedModel::run(plan);
  }
};

TEST(PassTimes, CurvesAreLinesBetweenTheirPoints) {
  const PassTimes::Curve curve{{1, 2.0}, {4, 8.0}, {8, 10.0}};
  EXPECT_EQ(at_count(curve, 0), 0);
  EXPECT_EQ(at_count(curve, 1), 2);
  EXPECT_EQ(at_count(curve, 2), 4);
  EXPECT_EQ(at_count(curve, 6), 9);
  EXPECT_EQ(at_count(curve, 16), 20);
  EXPECT_EQ(at_count({}, 3), 0);
}

TEST(PassTimes, APassCountsTokensLogitsAndWhatIsRead) {
  const PassTimes times{.tokens = {{1, 1.0}, {100, 100.0}},
                        .scored = {{1, 0.0}, {10, 9.0}},
                        .per_read = 0.001,
                        .per_pair = 0.0001};
  const std::vector<std::int32_t> text(20);
  infer::PassPlan plan;
  plan.segments.resize(2);
  plan.segments[0].begin = 99;
  plan.segments[0].tokens = std::span(text).first(1);
  plan.segments[1].begin = 10;
  plan.segments[1].tokens = text;
  plan.tokens = 21;
  plan.scored = 2;
  EXPECT_NEAR(times.seconds(plan), 21 + 1 + 0.1 + 0.0001 * (20 * 10 + 210), 1e-9);
}

TEST(PassTimes, APassCountsTheSourcesThatItReadsAndThoseThatTargetsSee) {
  const PassTimes times{.tokens = {{1, 1.0}, {100, 100.0}},
                        .scored = {{1, 0.0}, {10, 9.0}},
                        .per_read = 0.001,
                        .per_pair = 0.0001,
                        .sources = {{1, 2.0}, {100, 200.0}},
                        .per_source_pair = 0.01,
                        .per_source_read = 0.02};
  const std::vector<std::int32_t> text(20);
  infer::PassPlan plan;
  plan.segments.resize(2);
  plan.segments[0].begin = 99;
  plan.segments[0].tokens = std::span(text).first(1);
  plan.segments[0].source_length = 7;
  plan.segments[1].tokens = std::span(text).first(1);
  plan.segments[1].source = text;
  plan.segments[1].source_length = 20;
  plan.tokens = 22;
  plan.sources = 20;
  plan.scored = 2;
  EXPECT_NEAR(times.seconds(plan), 2 + 40 + 1 + 0.1 + 0.001 + 0.02 * (7 + 20) + 0.01 * 400, 1e-9);
}

TEST(PassTimes, AnEncoderDecoderIsMeasuredWithinItsLimits) {
  for (const std::int64_t blocks : {4, 40, 400}) {
    infer::SimulatedModel model({.block_tokens = 16,
                                 .blocks = blocks,
                                 .context = 50,
                                 .pass_tokens = 64,
                                 .sequences = 8,
                                 .scored = 8,
                                 .vocabulary = 50,
                                 .source_tokens = 200});
    const PassTimes times = measure_passes(model, 3);
    EXPECT_EQ(times.tokens.front().first, 1);
    EXPECT_EQ(times.sources.back().first, std::min<std::int64_t>(200, (blocks - 1) * 16));
    EXPECT_GT(times.sources.back().second + times.per_source_pair, 0);
  }
}

TEST(PassTimes, AModelIsMeasuredWithinItsLimits) {
  for (const std::int64_t blocks : {4, 40, 400}) {
    infer::SimulatedModel model(
        {.blocks = blocks, .context = 300, .pass_tokens = 64, .sequences = 8, .scored = 8, .vocabulary = 50});
    const PassTimes times = measure_passes(model, 3);
    EXPECT_EQ(times.tokens.front().first, 1);
    EXPECT_EQ(times.tokens.back().first, std::min<std::int64_t>(64, blocks * 16));
    EXPECT_EQ(times.scored.back().first, blocks == 4 ? 2 : 8);
    EXPECT_GT(times.tokens.back().second, 0);
  }
}

TEST(PassTimes, WhatAnAnswerReadsIsMeasuredOfOneTextAndOfSeveral) {
  infer::PassLimits limits{
      .blocks = 200, .context = 300, .pass_tokens = 64, .sequences = 8, .scored = 8, .vocabulary = 50};
  SlowReader several(limits);
  EXPECT_GT(measure_passes(several, 2).per_read, 1e-6);
  limits.blocks = limits.sequences = 1;
  limits.block_tokens = limits.context;
  SlowReader one(limits);
  EXPECT_GT(measure_passes(one, 2).per_read, 1e-6);
}

// Texts that grow have blocks to spare: those that wait for one would never begin.
TEST(PassTimes, LongTextsFitInTightPools) {
  for (const std::int64_t pass : {61, 150})
    for (const std::int64_t sequences : {2, 4, 16})
      for (std::int64_t blocks = 8; blocks < 130; ++blocks) {
        SCOPED_TRACE(std::to_string(blocks) + " blocks, passes of " + std::to_string(pass));
        infer::SimulatedModel model({.blocks = blocks,
                                     .context = 1024,
                                     .pass_tokens = pass,
                                     .sequences = sequences,
                                     .scored = 16,
                                     .vocabulary = 50});
        EXPECT_NO_THROW(measure_passes(model, 1));
      }
}

}  // namespace
}  // namespace stoa::serve
