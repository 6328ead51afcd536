// How two rows of numbers go together.
#pragma once

#include <span>
#include <vector>

namespace stoa::eval {

// Pearson's correlation; NaN where one of both is constant.
double pearson(std::span<const double> a, std::span<const double> b);
// Pearson's of the ranks, in which equal values share their mean rank (Spearman's).
double spearman(std::span<const double> a, std::span<const double> b);
std::vector<double> mean_ranks(std::span<const double> values);

}  // namespace stoa::eval
