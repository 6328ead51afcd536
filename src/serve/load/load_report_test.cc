#include "serve/load/load_report.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "serve/load/load.h"
#include "serve/load/load_text.h"

namespace stoa::serve {
namespace {

SentRequest request(double due, double first, double end, std::int64_t tokens) {
  SentRequest out;
  out.due = due;
  out.first = first;
  out.end = end;
  out.tokens = tokens;
  out.prompt_tokens = 10;
  out.status = 200;
  return out;
}

TEST(LoadReport, CountsWhatKeepsAllLimits) {
  std::vector<SentRequest> requests{request(0, 0.5, 1.5, 11),      // 0.5 s, then 0.1 s a token
                                    request(1, 2.5, 2.6, 2),       // 1.5 s
                                    request(2, 2.25, 4.25, 5),     // 0.25 s, then 0.5 s a token
                                    request(3, 3.125, 3.125, 1)};  // one token
  requests.emplace_back().error = "refused";
  const LoadReport report = report_of(requests, 5, parse_limits("ttft=1s,tpot=200ms"));
  EXPECT_EQ(report.sent, 5);
  EXPECT_EQ(report.answered, 4);
  EXPECT_EQ(report.good, 2);
  EXPECT_EQ(report.tokens, 19);
  EXPECT_EQ(report.prompt_tokens, 40);
  EXPECT_DOUBLE_EQ(report.per_second(report.tokens), 3.8);
  EXPECT_DOUBLE_EQ(report.first_token.most, 1.5);
  EXPECT_DOUBLE_EQ(report.first_token.p50, 0.25);
  EXPECT_EQ(report.per_token.count, 3);
  EXPECT_DOUBLE_EQ(report.per_token.most, 0.5);
  EXPECT_EQ(report_of(requests, 5, parse_limits("e2e=1s")).good, 1);
  EXPECT_EQ(report_of(requests, 5, {}).good, 4);
}

TEST(LoadReport, PercentilesAreOfTheNearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Distribution d = distribution_of(values);
  EXPECT_EQ(d.p50, 50);
  EXPECT_EQ(d.p90, 90);
  EXPECT_EQ(d.p99, 99);
  EXPECT_EQ(d.mean, 50.5);
  EXPECT_EQ(distribution_of({3}).p99, 3);
  EXPECT_EQ(distribution_of({}).count, 0);
}

TEST(LoadReport, OddLimitsAreNamed) {
  for (const char* text : {"ttft", "ttft=", "ttft=1", "ttft=-1s", "ttft=0s", "first=1s", "ttft=1s,,tpot=1s",
                           "tpot=1m", "tpot=nans", "tpot=infs"})
    EXPECT_THROW(parse_limits(text), ConfigError) << text;
}

TEST(Load, ArrivalsHaveTheRateAndAreThoseOfTheSeed) {
  const std::vector<double> times = arrivals(50, 10000, 3);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_NEAR(times.back(), 200, 8);  // four standard deviations
  EXPECT_EQ(arrivals(50, 100, 3), std::vector<double>(times.begin(), times.begin() + 100));
  EXPECT_NE(arrivals(50, 1, 4).front(), times.front());
}

TEST(Load, TextsShareNoBeginning) {
  EXPECT_EQ(load_text(1, 5, 20), load_text(1, 5, 20));
  EXPECT_NE(load_text(1, 5, 20), load_text(2, 5, 20));
  EXPECT_NE(load_text(1, 5, 20).front(), load_text(1, 6, 20).front());
}

}  // namespace
}  // namespace stoa::serve
