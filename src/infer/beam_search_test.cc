#include "infer/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace stoa::infer {
namespace {

using ::testing::ElementsAre;

SearchLimits limits(std::int64_t tokens) {
  return {tokens, [](std::int32_t id) { return id == 0; }};
}

std::vector<float> logs(std::initializer_list<double> probabilities) {
  std::vector<float> out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

// Token 0 ends. After 1 everything is likely to continue well, though 2 is likelier at first.
TEST(BeamSearch, FindsWhatTheLikeliestTokensMiss) {
  BeamSearch two(2, 1, limits(3));
  EXPECT_TRUE(two.advance(logs({.02, .4, .5, .08})));
  EXPECT_THAT(two.tokens(), ElementsAre(2, 1));
  EXPECT_THAT(two.parents(), ElementsAre(0, 0));
  std::vector<float> both = logs({.3, .3, .2, .2});
  const std::vector<float> good = logs({.03, .01, .01, .95});
  both.insert(both.end(), good.begin(), good.end());
  EXPECT_TRUE(two.advance(both));  // 1 3: 0.38; 2 then end: 0.15, kept; 2 1: 0.15
  EXPECT_THAT(two.tokens(), ElementsAre(3, 1));
  EXPECT_THAT(two.parents(), ElementsAre(1, 0));
  std::vector<float> last = logs({.9, .04, .03, .03});
  last.insert(last.end(), both.begin(), both.begin() + 4);
  EXPECT_FALSE(two.advance(last));
  const FoundTarget best = two.best();
  EXPECT_THAT(best.ids, ElementsAre(1, 3));
  EXPECT_TRUE(best.ended);
  EXPECT_NEAR(best.score, std::log(.4 * .95 * .9) / 3, 1e-6);
}

TEST(BeamSearch, EndsWithItsLength) {
  BeamSearch search(2, 0, limits(1));
  EXPECT_FALSE(search.advance(logs({.1, .2, .3, .4})));
  EXPECT_THAT(search.best().ids, ElementsAre(3));
  EXPECT_FALSE(search.best().ended);
  EXPECT_NEAR(search.best().score, std::log(.4), 1e-6);
  EXPECT_THROW(BeamSearch(0, 1, limits(1)), ConfigError);
}

}  // namespace
}  // namespace stoa::infer
