#include "serve/load/simulated_load.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "serve/load/load.h"
#include "serve/load/machines.h"

namespace stoa::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const infer::PassLimits kLimits{
    .blocks = 1000, .context = 1000, .sequences = 4, .scored = 4, .vocabulary = 10};

// `slow`: how many times as long everything takes.
PassTimes pass_times(double slow = 1) {
  return {.tokens = {{1, 0.01 * slow}, {512, 0.05 * slow}}, .scored = {{1, 0}, {32, 0.001 * slow}}};
}

LoadReport simulated(double rate, double slow, double limit_scale, std::int64_t requests = 300) {
  const std::vector<RequestLength> lengths{{100, 20}, {30, 40}};
  const auto sent = simulate_load(kLimits, pass_times(slow), lengths, arrivals(rate, requests, 1));
  double end = 0;
  for (const SentRequest& request : sent) end = std::max(end, request.end);
  return report_of(sent, end, {.first_token = 0.2 * limit_scale, .per_token = 0.02 * limit_scale});
}

MachinesAnswer machines_for(double rate, double slow = 1, double limit_scale = 1) {
  return find_machines({.rate = rate}, [&](double each) { return simulated(each, slow, limit_scale); });
}

TEST(SimulatedLoad, ARequestAloneTakesItsPasses) {
  const std::vector<RequestLength> lengths{{513, 3}};
  const std::vector<double> arrive{1};
  const auto sent = simulate_load(kLimits, pass_times(), lengths, arrive);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_NEAR(sent[0].first_token_seconds(), 0.05 + 0.01, 1e-9);  // 512 tokens, then one
  EXPECT_NEAR(sent[0].seconds(), 0.05 + 0.03, 1e-9);
  EXPECT_EQ(sent[0].tokens, 3);
  EXPECT_EQ(sent[0].gaps.size(), 2u);
}

TEST(SimulatedLoad, RequestsShareThePassesOfFourAndTheOthersWait) {
  const std::vector<RequestLength> lengths{{1, 10}};
  const std::vector<double> arrive(8, 0.0);
  const auto sent = simulate_load(kLimits, pass_times(), lengths, arrive);
  const double pass = pass_times().tokens[0].second + 0.04 * 3 / 511 + 0.001 * 3 / 31;
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(sent[i].end, (i < 4 ? 10 : 20) * pass, 1e-9);
}

TEST(SimulatedLoad, WhatDoesNotFitIsRefused) {
  const std::vector<RequestLength> lengths{{900, 200}};
  const std::vector<double> arrive{0};
  EXPECT_THAT([&] { simulate_load(kLimits, pass_times(), lengths, arrive); },
              ThrowsMessage<ConfigError>(HasSubstr("do not fit a context of 1000")));
}

TEST(SimulatedLoad, SourcesAreReadBeforeTheirAnswers) {
  infer::PassLimits limits = kLimits;
  limits.source_tokens = 1000;
  PassTimes times{.tokens = {{1, 0.01}}, .scored = {{1, 0.0}}, .sources = {{1, 1e-4}, {1000, 0.1}}};
  const std::vector<RequestLength> lengths{{600, 3}};
  const std::vector<double> arrive{1};
  const auto sent = simulate_load(limits, times, lengths, arrive);
  EXPECT_NEAR(sent[0].first_token_seconds(), 0.06 + 0.01, 1e-9);  // one pass, although it holds 512 tokens
  EXPECT_NEAR(sent[0].seconds(), 0.06 + 0.03, 1e-9);
  EXPECT_THAT(
      [&] {
        simulate_load(limits, times, std::vector<RequestLength>{{1001, 3}}, arrive);
      },
      ThrowsMessage<ConfigError>(HasSubstr("sources have at most 1000")));
}

TEST(SimulatedLoad, LengthsAreReadFromLines) {
  const auto lengths = read_lengths("# of a day\n10,20\r\n\n3,4", "day.csv");
  ASSERT_EQ(lengths.size(), 2u);
  EXPECT_EQ(lengths[1].output, 4);
  for (const char* wrong : {"10", "10,", "10,x", "0,3", "3,0", "1,2,3", ""})
    EXPECT_THAT([&] { read_lengths(wrong, "day.csv"); }, ThrowsMessage<DataError>(HasSubstr("day.csv")))
        << wrong;
}

TEST(Machines, OneIsEnoughForHardlyAnyRequests) {
  const MachinesAnswer answer = machines_for(1e-4);
  EXPECT_EQ(answer.machines, 1);
  EXPECT_EQ(answer.rows.front().share(), 1);
  EXPECT_GT(answer.most_rate, 1);
}

TEST(Machines, HalfTheSpeedNeedsTwiceTheMachines) {
  const MachinesAnswer fast = machines_for(50), slow = machines_for(50, 2, 2);
  EXPECT_NEAR(slow.most_rate, fast.most_rate / 2, 0.02 * fast.most_rate);
  ASSERT_TRUE(fast.machines && slow.machines);
  EXPECT_NEAR(static_cast<double>(*slow.machines), 2.0 * static_cast<double>(*fast.machines), 1);
  // With the same limits more than twice as many.
  EXPECT_GE(machines_for(50, 1.5).machines.value_or(1000), 1.5 * static_cast<double>(*fast.machines) - 1);
}

TEST(Machines, MoreRequestsNeverNeedFewerMachines) {
  std::int64_t before = 0;
  double share = 1;
  for (const double rate : {1.0, 3.0, 10.0, 20.0, 40.0, 80.0}) {
    const MachinesAnswer answer = machines_for(rate);
    ASSERT_TRUE(answer.machines);
    EXPECT_GE(*answer.machines, before) << rate;
    before = *answer.machines;
    EXPECT_GE(answer.rows[answer.rows.size() - 2].share(), 0.95);  // as many as needed
    EXPECT_LE(answer.rows.front().share(), share);                 // one machine
    share = answer.rows.front().share();
  }
  EXPECT_GT(before, 4);
}

TEST(Machines, NoNumberIsEnoughForALimitThatOneRequestAloneBreaks) {
  const MachinesAnswer answer = machines_for(1, 1, 0.1);
  EXPECT_FALSE(answer.machines);
  EXPECT_EQ(answer.most_rate, 0);
  EXPECT_GT(answer.alone.first_token.p50, 0.01);
}

}  // namespace
}  // namespace stoa::serve
