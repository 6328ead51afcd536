#include "plan/size.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace stoa::plan {
namespace {

// 6 operations per parameter: the textbook.
double six(double n) { return 6 * n; }

TEST(Size, SolvesForWhatIsMissing) {
  const double rate = 140e12;
  const auto days = solve({175e9, 300e9, 1024, {}}, rate, six);
  EXPECT_EQ(days.solved_for, "days");
  EXPECT_NEAR(days.days, 6.0 * 175e9 * 300e9 / (rate * 1024 * 86400), 1e-9);
  const auto model = solve({{}, 300e9, 1024, days.days}, rate, six);
  EXPECT_NEAR(model.parameters, 175e9, 1e3);
  EXPECT_NEAR(solve({175e9, {}, 1024, days.days}, rate, six).tokens, 300e9, 1);
  EXPECT_EQ(solve({175e9, 300e9, {}, days.days * 1.0001}, rate, six).devices, 1024);
}

TEST(Size, OfTwoTheModelAndItsTokensAreComputeOptimal) {
  const double rate = 400e12;
  const auto model = solve({{}, {}, 1000, 30}, rate, six);
  EXPECT_TRUE(model.balanced);
  EXPECT_NEAR(model.tokens / model.parameters, 20, 1e-3);
  EXPECT_NEAR(six(model.parameters) * model.tokens / (rate * 1000 * 86400 * 30), 1, 1e-5);
  const auto days = solve({7e9, {}, 64, {}}, rate, six);
  EXPECT_EQ(days.solved_for, "days");
  EXPECT_EQ(days.tokens, 140e9);
  EXPECT_EQ(solve({{}, 140e9, {}, 3}, rate, six).parameters, 7e9);
  EXPECT_FALSE(solve({7e9, 140e9, 64, {}}, rate, six).balanced);
}

TEST(Size, RefusesWhatIsNotAQuestion) {
  EXPECT_THROW(solve({175e9, 300e9, 1024, 10}, 1e14, six), ConfigError);
  EXPECT_THROW(solve({175e9, 300e9, {}, {}}, 1e14, six), ConfigError);
  EXPECT_THROW(solve({175e9, 300e9, -1, {}}, 1e14, six), ConfigError);
  EXPECT_THROW(solve({175e9, 300e9, 8, {}}, 0, six), ConfigError);
}

TEST(Size, ReadsCounts) {
  EXPECT_EQ(parse_count("5B", "--params"), 5e9);
  EXPECT_EQ(parse_count("1.5t", "--params"), 1.5e12);
  EXPECT_EQ(parse_count("300e9", "--params"), 300e9);
  for (const char* bad : {"", "B", "-1", "5Q", "five", "0"})
    EXPECT_THROW(parse_count(bad, "--params"), UsageError);
}

}  // namespace
}  // namespace stoa::plan
