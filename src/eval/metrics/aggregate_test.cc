#include "eval/metrics/aggregate.h"

#include <gtest/gtest.h>

namespace stoa::eval {
namespace {

// Values of scikit-learn 1.7's f1_score.
TEST(Aggregates, MeansOfF1AreScikitLearns) {
  const std::vector<int> gold{0, 1, 2, 1, 1, 3, 5}, predicted{0, 1, 1, 1, 2, 0, 5};
  std::vector<Json> values;
  for (std::size_t i = 0; i < gold.size(); ++i) values.push_back(Json::array({gold[i], predicted[i]}));
  EXPECT_DOUBLE_EQ(aggregate("f1_macro", values, 1000, 1).value, 0.4666666666666666);
  EXPECT_DOUBLE_EQ(aggregate("f1_micro", values, 1000, 1).value, 0.5714285714285714);
  const Aggregated weighted = aggregate("f1_weighted", values, 1000, 1);
  EXPECT_DOUBLE_EQ(weighted.value, 0.5238095238095238);
  EXPECT_FALSE(weighted.standard_error);  // as in the harness, whose functions of tasks have none
  const std::vector<Json> wrong{Json::array({0, 2}), Json::array({1, 2})};
  for (const char* name : {"f1_macro", "f1_micro", "f1_weighted"})
    EXPECT_EQ(aggregate(name, wrong, 0, 1).value, 0);
}

}  // namespace
}  // namespace stoa::eval
