// Scores of a labelled task's head on the validation data: ratios of counts that are summed over ranks.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "model/task_config.h"
#include "tensor/tensor_view.h"
#include "train/regression_sums.h"

namespace stoa::train {

// Classification: the accuracy over labels; if tags name spans (infer/tag_spans.h) also the F1 of whole spans
// over all texts, as seqeval's micro average. Regression: the mean absolute error and Pearson's correlation.
// Question answering, over rows (windows of contexts): the share of rows whose most likely span is the
// answer's, and the mean F1 of the tokens of both.
class AnswerScore {
 public:
  explicit AnswerScore(const model::TaskConfig& task);

  // Rows [first, first + rows) of the batch and their logits, on the host: [labels in token order, classes];
  // for question answering [tokens, 2].
  void add(const data::Batch& batch, std::int64_t first, std::int64_t rows, TensorView logits);

  std::span<double> counts() {
    return task_.regression() ? std::span(&numbers_.count, 7) : std::span(counts_);
  }
  // "accuracy", 0.91 …; from the counts summed over all ranks.
  std::vector<std::pair<std::string, double>> scores() const;

 private:
  void add_answers(const data::Batch& batch, std::int64_t first, std::int64_t rows, TensorView logits);

  // kLabels: tokens or rows with a label; kOverlap: sum of F1 over rows.
  enum Count { kLabels, kRight, kSpans, kFound, kRightSpans, kOverlap, kCounts };
  double& count(Count which) { return counts_[which]; }

  const model::TaskConfig& task_;
  bool spans_;
  std::vector<double> counts_;
  RegressionSums numbers_;
};

}  // namespace stoa::train
