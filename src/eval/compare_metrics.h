// The curves of two runs, step by step.
#pragma once

#include "eval/compare_runs.h"

namespace stoa::eval {

// Fills curves, steps, only_a, only_b; notes what is missing. True: equal within the tolerance.
bool compare_metrics(const fs::path& a, const fs::path& b, double tolerance, Comparison& out);

// |a - b| over `scale`; 0 where both are the same bits or both not a number; infinite where only one is
// finite.
double relative_difference(double a, double b, double scale);

}  // namespace stoa::eval
