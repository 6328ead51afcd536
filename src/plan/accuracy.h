// How well the time model does on measured rows: the table that docs/planner.md quotes.
#pragma once

#include <string>
#include <vector>

#include "plan/fit.h"

namespace stoa::plan {

// Absolute errors in percent.
struct ErrorSummary {
  int rows = 0;
  double median = 0, mean = 0, p90 = 0;
};
ErrorSummary summarize(std::vector<double> errors);  // predicted / measured - 1

struct RankingSummary {
  int groups = 0;
  double kendall = 0;                      // mean over groups, pairs whose times differ by more than 3 %
  double regret_mean = 0, regret_p90 = 0;  // percent: time of our first choice over the best
};

struct WorstRow {
  std::string source, model;
  double measured = 0, error = 0;
};

struct AccuracyReport {
  struct Line {
    std::string measure;
    ErrorSummary errors;
    std::string bar;  // "2.5 / 4 / 8", or empty
  };
  std::vector<Line> lines;
  std::vector<Line> sources;  // calibrated per release, by group and family
  RankingSummary ranking, ranking_left_out;
  ErrorSummary memory;
  int memory_underestimates = 0;  // by more than 5 %
  std::vector<WorstRow> worst;    // calibrated per release
};

// `rows`: measured, without a problem, independent. Deterministic: samples of five rows come from a fixed
// seed.
AccuracyReport measure_accuracy(const RowList& rows);
std::string to_markdown(const AccuracyReport& report);

}  // namespace stoa::plan
