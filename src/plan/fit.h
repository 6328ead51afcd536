// Fits the constants of the time model to measured steps: maximum a posteriori, priors around the textbook
// values, robust loss on log(predicted / measured), every constant within its physical bounds.
#pragma once

#include <span>
#include <vector>

#include "plan/calibration.h"
#include "plan/rows.h"

namespace stoa::plan {

using RowList = std::vector<const Row*>;

// Prior width where constants that other rows gave are fitted again to few rows of one program.
inline constexpr double kRefitWidth = 1.2;

struct FitOptions {
  double scatter = 0.03;       // expected scatter of good measurements, in natural logarithms
  double prior_width = 1;      // factor on the deviations of the priors
  bool balance_groups = true;  // groups of rows weigh by the root of their size, not by it
  int iterations = 15;
};

// Rows must have `seconds` and no `problem`. Levenberg-Marquardt with Huber weights.
Constants fit_constants(const RowList& rows, const Constants& prior, const FitOptions& options = {});

// Constants that the rows moved by more than a tenth of their prior's deviation times `width`; of more than
// `most` those that moved furthest, since few rows determine few.
std::vector<Constant> determined(const Constants& fitted, const Constants& prior, double width = 1,
                                 std::size_t most = kConstants);

// One entry per device family, and one per release within it.
Calibration calibrate(const RowList& rows);

// predicted / measured - 1
double error_of(const Row& row, const Constants& constants);

}  // namespace stoa::plan
