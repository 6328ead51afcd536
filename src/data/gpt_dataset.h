// Samples of a GPT: S + 1 consecutive tokens of the shuffled documents give input and labels.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "data/gpt_index.h"
#include "data/index_cache.h"
#include "data/indexed_dataset.h"

namespace stoa::data {

struct GptOptions {
  std::int64_t sequence_length = 1024;
  std::uint32_t seed = 1234;
  bool add_extra_token = true;        // labels of the last position come from the next sample's first token
  bool drop_last_partial = true;      // else one padded sample at the end
  bool eod_mask_loss = false;         // no loss where the input is the end-of-document token
  bool reset_position_ids = false;    // positions restart with every document
  bool reset_attention_mask = false;  // attention does not cross documents: cu_seqlens
  std::int32_t eod_id = -1;           // -1: none; then documents end only where the data has a boundary
  std::int64_t vocabulary = 0;        // > 0: a token at or beyond it is a DataError
};

class GptDataset final : public Dataset {
 public:
  // Sequences [first, last) of `data`. `samples` unset: one epoch. `split` only names the cached indices.
  GptDataset(std::shared_ptr<const IndexedDataset> data, std::int64_t first, std::int64_t last,
             std::optional<std::int64_t> samples, const GptOptions& options, std::string_view split,
             const IndexCache& cache);

  std::int64_t size() const override { return plan_.samples; }
  std::int64_t sequence_length() const override { return options_.sequence_length; }
  void read(std::int64_t k, BatchRow row) const override;
  std::vector<Piece> pieces(std::int64_t k) const override;

  const EpochPlan& plan() const { return plan_; }
  const GptIndex& index() const { return index_; }

 private:
  template <class Visit>
  void visit_pieces(std::int64_t k, Visit&& visit) const;  // (sequence, offset, length), lengths > 0
  void check_ids(std::int64_t sequence, std::int64_t offset, std::span<const std::int32_t> ids) const;

  std::shared_ptr<const IndexedDataset> data_;
  std::int64_t first_, last_;
  GptOptions options_;
  EpochPlan plan_;
  GptIndex index_;
};

}  // namespace stoa::data
