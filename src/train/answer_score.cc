#include "train/answer_score.h"

#include <algorithm>

#include "data/number_label.h"
#include "infer/question_windows.h"
#include "infer/tag_spans.h"

namespace stoa::train {
namespace {

std::int32_t best_of(TensorView logits, std::int64_t row) {
  std::int32_t best = 0;
  dispatch_float(logits.dtype, [&]<class T>() {
    const T* x = logits.row<T>(row);
    for (std::int32_t i = 1; i < logits.shape.inner(); ++i)
      if (static_cast<float>(x[i]) > static_cast<float>(x[best])) best = i;
  });
  return best;
}

double first_value(TensorView logits, std::int64_t row) {
  double value = 0;
  dispatch_float(logits.dtype,
                 [&]<class T>() { value = static_cast<double>(static_cast<float>(logits.row<T>(row)[0])); });
  return value;
}

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

AnswerScore::AnswerScore(const model::TaskConfig& task)
    : task_(task),
      spans_(task.type == model::Task::kTokenClassification && infer::are_span_tags(task.labels)),
      counts_(kCounts, 0.0) {}

void AnswerScore::add(const data::Batch& batch, std::int64_t first, std::int64_t rows, TensorView logits) {
  if (task_.type == model::Task::kQuestionAnswering) return add_answers(batch, first, rows, logits);
  std::int64_t next = 0;
  for (std::int64_t r = first; r < first + rows; ++r) {
    std::vector<std::int32_t> right, found;
    for (std::int64_t i = 0; i < batch.boundaries(r).back(); ++i) {
      const auto at = static_cast<std::size_t>(r * batch.sequence_length + i);
      if (batch.loss_mask[at] == 0) continue;
      if (task_.regression()) {
        numbers_.add(first_value(logits, next++),
                     static_cast<double>(data::number_of_label(batch.labels[at])));
        continue;
      }
      right.push_back(batch.labels[at]);
      found.push_back(best_of(logits, next++));
      count(kLabels) += 1;
      count(kRight) += right.back() == found.back();
    }
    if (!spans_) continue;
    const auto a = infer::tag_spans(right, task_.labels), b = infer::tag_spans(found, task_.labels);
    count(kSpans) += static_cast<double>(a.size());
    count(kFound) += static_cast<double>(b.size());
    count(kRightSpans) += static_cast<double>(std::count_if(
        b.begin(), b.end(), [&](const auto& s) { return std::find(a.begin(), a.end(), s) != a.end(); }));
  }
}

void AnswerScore::add_answers(const data::Batch& batch, std::int64_t first, std::int64_t rows,
                              TensorView logits) {
  std::vector<float> values;
  dispatch_float(logits.dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < logits.rows(); ++i)
      for (const int side : {0, 1}) values.push_back(static_cast<float>(logits.row<T>(i)[side]));
  });
  std::size_t begin = 0;  // of the row's tokens
  for (std::int64_t r = first; r < first + rows; ++r) {
    const std::int64_t length = batch.boundaries(r).back(),
                       from = batch.labels[static_cast<std::size_t>(r * batch.sequence_length)],
                       to = batch.sentence_labels[static_cast<std::size_t>(r)];
    const auto found = infer::best_span(
        std::span(values).subspan(2 * begin, static_cast<std::size_t>(2 * length)), 0, length);
    const std::int64_t common = std::min(to, found.last) - std::max(from, found.first) + 1;
    count(kLabels) += 1;
    count(kRight) += found.first == from && found.last == to;
    if (common > 0)
      count(kOverlap) +=
          2 * static_cast<double>(common) / static_cast<double>(to - from + 1 + found.last - found.first + 1);
    begin += static_cast<std::size_t>(length);
  }
}

std::vector<std::pair<std::string, double>> AnswerScore::scores() const {
  if (task_.type == model::Task::kQuestionAnswering)
    return {{"exact", ratio(counts_[kRight], counts_[kLabels])},
            {"f1", ratio(counts_[kOverlap], counts_[kLabels])}};
  if (task_.regression()) return numbers_.scores();
  std::vector<std::pair<std::string, double>> out{{"accuracy", ratio(counts_[kRight], counts_[kLabels])}};
  if (spans_) out.emplace_back("f1", ratio(2 * counts_[kRightSpans], counts_[kSpans] + counts_[kFound]));
  return out;
}

}  // namespace stoa::train
