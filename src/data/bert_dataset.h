// Samples of BERT: [CLS] A [SEP] B [SEP] of consecutive sentences, with tokens to be predicted, as Megatron
// makes them (megatron/core/datasets/bert_dataset.py). With the sentence question, A and B change places in
// half of the samples.
#pragma once

#include <memory>
#include <optional>

#include "data/masked_tokens.h"
#include "data/sentence_rows.h"

namespace stoa::data {

struct BertOptions {
  std::int64_t sequence_length = 512;
  std::uint32_t seed = 1234;
  bool sentence_pairs = true;
  double short_probability = 0.1;
  NgramOptions masking;
  MaskingTokens tokens;
};

class BertDataset final : public Dataset {
 public:
  // Documents [first, last) of `data`, whose sequences are sentences. ConfigError: the tokenizer lacks a
  // token that samples need.
  BertDataset(std::shared_ptr<const IndexedDataset> data, std::int64_t first, std::int64_t last,
              std::optional<std::int64_t> samples, const BertOptions& options, std::string_view split,
              const IndexCache& cache);

  std::int64_t size() const override { return rows_.size(); }
  std::int64_t sequence_length() const override { return options_.sequence_length; }
  bool masked() const override { return true; }
  void read(std::int64_t k, BatchRow row) const override;
  std::vector<Piece> pieces(std::int64_t k) const override { return rows_.pieces(k); }

 private:
  BertOptions options_;
  SentenceRows rows_;
};

}  // namespace stoa::data
