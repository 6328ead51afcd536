#include "nn/alibi.h"

#include <gtest/gtest.h>

namespace stoa::nn {
namespace {

// The values of transformers' build_alibi_tensor.
TEST(Alibi, SlopesForAnyNumberOfHeads) {
  EXPECT_EQ(alibi_slopes(4), (std::vector<double>{.25, .0625, .015625, .00390625}));
  EXPECT_EQ(alibi_slopes(6), (std::vector<double>{.25, .0625, .015625, .00390625, .5, .125}));
  const auto twelve = alibi_slopes(12);
  EXPECT_EQ(twelve[7], 1.0 / 256);
  EXPECT_NEAR(twelve[8], .7071068, 1e-7);
  EXPECT_NEAR(twelve[11], .08838834, 1e-8);
  const auto many = alibi_slopes(112);
  EXPECT_NEAR(many[0], .917004, 1e-6);
  EXPECT_NEAR(many[111], .01631677, 1e-8);
}

TEST(Alibi, TableFallsWithDistance) {
  EXPECT_EQ(alibi_table(2, 3), (std::vector<double>{-.125, -.0078125, -.0625, -.00390625, 0, 0}));
}

}  // namespace
}  // namespace stoa::nn
