// What evaluations of one model, or of its checkpoints in their order, come to: figures with standard errors,
// how far the model's confidence can be believed, and the questions that it got wrong.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/samples/sample_files.h"

namespace stoa::eval {

// Expected calibration error (Guo et al. 2017, On Calibration of Modern Neural Networks): documents in ten
// bins by the probability of the most likely choice among the choices; |right - confidence| of the bins,
// weighted by their documents.
struct Calibration {
  struct Bin {
    std::int64_t documents = 0;
    double confidence = 0, right = 0;  // means
  };
  std::int64_t documents = 0;
  double confidence = 0, right = 0, error = 0;
  std::vector<Bin> bins;
};
// None: no document has several choices and `acc`.
std::optional<Calibration> calibration_of(const std::map<std::int64_t, SampledDocument>& documents);

// A figure of results_*.json over the evaluations; none where one lacks it, or its standard error.
struct ReportedFigure {
  std::string task, name;  // name: metric, or "metric,filter"
  std::vector<std::optional<double>> values, errors;
};
struct ReportedCalibration {
  std::string task;
  std::vector<std::optional<Calibration>> values;
};
struct WrongAnswer {
  std::string task;
  SampledDocument document;
};

struct SampleReport {
  std::vector<std::string> names;  // of the evaluations
  std::vector<double> places;  // of each on the axis of curves: the number that its name ends with, or 1, 2 …
  std::vector<ReportedFigure> figures;
  std::vector<ReportedCalibration> calibrations;
  std::vector<WrongAnswer> wrong;  // of the last one, by each task's first metric that is right or wrong
};

// IoError: no such folder, or no results_*.json in it. DataError: it is no result.
SampleReport report_samples(const std::vector<fs::path>& folders);

std::string to_text(const SampleReport& report);
std::string to_json(const SampleReport& report);

}  // namespace stoa::eval
