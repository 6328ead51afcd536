// Samples of an encoder-decoder whose sources begin with virtual tokens (nn/adapter_policy.h).
#pragma once

#include <memory>

#include "data/dataset.h"

namespace stoa::data {

class VirtualSources final : public Dataset {
 public:
  struct Tokens {
    std::int64_t count = 0;
    std::int32_t first_id = 0;  // the others have the ids that follow
  };
  // `pairs`: rows of data/pair_row.h, whose sources have room for `source_length` tokens.
  VirtualSources(std::shared_ptr<const Dataset> pairs, std::int64_t source_length, Tokens tokens)
      : pairs_(std::move(pairs)), source_length_(source_length), tokens_(tokens) {}

  std::int64_t size() const override { return pairs_->size(); }
  std::int64_t sequence_length() const override { return pairs_->sequence_length() + tokens_.count; }
  void read(std::int64_t k, BatchRow row) const override;
  std::vector<Piece> pieces(std::int64_t k) const override { return pairs_->pieces(k); }

 private:
  std::shared_ptr<const Dataset> pairs_;
  std::int64_t source_length_;
  Tokens tokens_;
};

}  // namespace stoa::data
