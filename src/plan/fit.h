// Fits the constants of the time model to measured steps: maximum a posteriori, priors around the textbook
// values, robust loss on log(predicted / measured), every constant within its physical bounds.
#pragma once

#include <array>
#include <vector>

#include "plan/calibration.h"
#include "plan/rows.h"

namespace stoa::plan {

using RowList = std::vector<const Row*>;

// Prior width where constants that other rows gave are fitted again to few rows of one program.
inline constexpr double kRefitWidth = 1.2;

// Standard deviations in natural logarithms, one per constant.
using Deviations = std::array<double, kConstants>;
Deviations textbook_deviations(double width = 1);

struct FitOptions {
  double scatter = 0.03;  // expected scatter of good measurements, in natural logarithms
  Deviations prior = textbook_deviations();
  bool balance_groups = true;  // groups of rows weigh by the root of their size, not by it
  int iterations = 15;
  // Degrees of freedom of Student's t, by which single bad measurements among few lose their pull (Lange,
  // Little and Taylor 1989); 0: Huber's loss, which many rows can do with.
  double freedom = 0;
};

// Rows must have `seconds` and no `problem`. Levenberg-Marquardt with the weights of the loss.
Constants fit_constants(const RowList& rows, const Constants& prior, const FitOptions& options = {});

// What the programs of a device type have in common: constants of program p are mean + N(0, deviation^2), in
// natural logarithms. Few rows of a program that is not among them are fitted with this as prior.
struct Population {
  Constants mean;
  Deviations deviation;
};

// Random effects by expectation-maximization (Laird and Ware 1982): each program is fitted with the
// population as prior; mean and deviation follow from the fits and from how sure each of them is. The
// textbook is the prior of both. Programs count alike, however many rows they have.
Population fit_population(const RowList& rows, const Constants& prior);

// Constants of a program by a few of its rows.
Constants fit_member(const RowList& rows, const Population& population);

// Constants that the rows moved by more than a tenth of their prior's deviation times `width`; of more than
// `most` those that moved furthest, since few rows determine few.
std::vector<Constant> determined(const Constants& fitted, const Constants& prior, double width = 1,
                                 std::size_t most = kConstants);

// One entry per device family, one per release within it, and one for releases without rows (kOtherRelease)
// where three and more say what programs have in common.
Calibration calibrate(const RowList& rows);

// `onto` with entries of the rows' programs on their device families, fitted to these rows from the family's
// constants; its other entries stay as they are.
Calibration calibrate_programs(const RowList& rows, Calibration onto);

// predicted / measured - 1
double error_of(const Row& row, const Constants& constants);

}  // namespace stoa::plan
