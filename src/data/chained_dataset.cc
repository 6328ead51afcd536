#include "data/chained_dataset.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::data {

ChainedDataset::ChainedDataset(std::vector<std::shared_ptr<const Dataset>> parts) : parts_(std::move(parts)) {
  require<InternalError>(!parts_.empty(), "a chain of no data sets");
  std::int64_t end = 0;
  for (const auto& part : parts_) ends_.push_back(end += part->size());
}

std::pair<const Dataset*, std::int64_t> ChainedDataset::locate(std::int64_t k) const {
  require<DataError>(k >= 0 && k < size(), "the data has {} samples; number {} was requested", size(), k);
  const auto part = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), k) - ends_.begin());
  return {parts_[part].get(), part == 0 ? k : k - ends_[part - 1]};
}

void ChainedDataset::read(std::int64_t k, BatchRow row) const {
  const auto [part, sample] = locate(k);
  part->read(sample, row);
}

std::vector<Piece> ChainedDataset::pieces(std::int64_t k) const {
  const auto [part, sample] = locate(k);
  return part->pieces(sample);
}

}  // namespace stoa::data
