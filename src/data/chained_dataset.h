// Concatenated data sets: what a run was planned to read, and what it reads when it is extended.
#pragma once

#include <memory>
#include <vector>

#include "data/dataset.h"

namespace stoa::data {

class ChainedDataset final : public Dataset {
 public:
  // At least one, all of one sequence length.
  explicit ChainedDataset(std::vector<std::shared_ptr<const Dataset>> parts);

  std::int64_t size() const override { return ends_.back(); }
  std::int64_t sequence_length() const override { return parts_.front()->sequence_length(); }
  bool masked() const override { return parts_.front()->masked(); }
  void read(std::int64_t k, BatchRow row) const override;
  std::vector<Piece> pieces(std::int64_t k) const override;

 private:
  std::pair<const Dataset*, std::int64_t> locate(std::int64_t k) const;

  std::vector<std::shared_ptr<const Dataset>> parts_;
  std::vector<std::int64_t> ends_;  // of every part: samples up to its last
};

}  // namespace stoa::data
