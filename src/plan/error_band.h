// Where 8 of 10 measurements of a workload are expected: wider, the less its like was measured.
#pragma once

#include <string>
#include <vector>

#include "plan/calibration.h"
#include "plan/fit.h"
#include "plan/workload.h"

namespace stoa::plan {

struct ErrorBand {
  double low = 1, high = 1;  // measured over predicted
  std::string why;           // what was not measured; empty: runs of this kind, program and device were
};

// Properties by which a model is another kind to the time model: "experts", "latent attention", "linear
// attention"; none of a dense decoder.
std::vector<std::string> model_kinds(const ModelShape& model);

// The band of the calibration's entry, widened by what is unlike all measurements behind it.
ErrorBand error_band(const Workload& w, const Cluster& c, const Calibration& calibration);

// A release without its number: "nemo" of "nemo-24.11".
std::string program_of(const std::string& release);

// How far off rows are whose program, kind of model or device is left out of the fit. A test of it with whole
// sources left out is in plan/error_band_test.
Calibration::Unlike measure_unlike(const RowList& rows);

// Band of errors (predicted / measured - 1): 10th and 90th percentile of measured over predicted, at least
// 2 % wide.
Calibration::Range range_of(std::vector<double> errors);

}  // namespace stoa::plan
