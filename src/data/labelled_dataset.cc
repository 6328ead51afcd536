#include "data/labelled_dataset.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/numpy_random.h"

namespace stoa::data {

LabelledDataset::LabelledDataset(std::vector<LabelledRow> rows, std::optional<std::int64_t> samples,
                                 const Options& options)
    : rows_(std::move(rows)), options_(options) {
  require<InternalError>(!rows_.empty(), "a labelled data set without rows");
  for (const LabelledRow& row : rows_)
    require<InternalError>(static_cast<std::int64_t>(row.tokens.size()) <= options_.sequence_length &&
                               row.tokens.size() == row.token_types.size(),
                           "{} line {}: a row of {} tokens, declared for {}", row.file, row.line,
                           row.tokens.size(), options_.sequence_length);
  const auto wanted = static_cast<std::size_t>(samples.value_or(static_cast<std::int64_t>(rows_.size())));
  order_.reserve(wanted);
  const auto together = static_cast<std::uint32_t>(options_.together);
  require<InternalError>(rows_.size() % together == 0, "{} rows in groups of {}", rows_.size(), together);
  std::vector<std::uint32_t> epoch(rows_.size() / together);
  NumpyRandom random(options_.seed);
  while (order_.size() < wanted) {
    std::iota(epoch.begin(), epoch.end(), 0u);
    if (options_.shuffled) random.shuffle(std::span(epoch));
    for (const std::uint32_t group : epoch)
      for (std::uint32_t i = 0; i < together && order_.size() < wanted; ++i)
        order_.push_back(group * together + i);
  }
}

const LabelledRow& LabelledDataset::row(std::int64_t k) const {
  require<DataError>(k >= 0 && k < size(), "the labelled data has {} samples; number {} was requested",
                     size(), k);
  return rows_[order_[static_cast<std::size_t>(k)]];
}

std::vector<Piece> LabelledDataset::pieces(std::int64_t k) const {
  const LabelledRow& r = row(k);
  return {{r.file, r.line, 0, static_cast<std::int64_t>(r.tokens.size())}};
}

void LabelledDataset::read(std::int64_t k, BatchRow to) const {
  const LabelledRow& from = row(k);
  const std::size_t length = from.tokens.size();
  std::fill(to.tokens.begin(), to.tokens.end(), options_.pad);
  std::fill(to.token_types.begin(), to.token_types.end(), 0);
  std::fill(to.labels.begin(), to.labels.end(), 0);
  std::fill(to.loss_mask.begin(), to.loss_mask.end(), 0.0f);
  std::iota(to.position_ids.begin(), to.position_ids.end(), 0);
  std::copy_n(from.tokens.begin(), length, to.tokens.begin());
  std::copy_n(from.token_types.begin(), length, to.token_types.begin());
  for (const LabelledRow::Label& label : from.labels) {
    to.labels[static_cast<std::size_t>(label.token)] = label.label;
    to.loss_mask[static_cast<std::size_t>(label.token)] = 1;
  }
  *to.sentence_label = from.second_label;
  to.cu_seqlens->push_back(0);
  to.cu_seqlens->push_back(static_cast<std::int32_t>(length));
}

}  // namespace stoa::data
