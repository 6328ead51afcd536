// Samples of an encoder-decoder as Megatron makes them (megatron/core/datasets/t5_dataset.py): n-grams of
// whole words are cut out of consecutive sentences, each replaced by a sentinel, and the target says after
// every sentinel what stood there. Unlike data/span_dataset.h the source is a text of a document, which ends
// where a sentence does or the row is full, and has no </s>.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/ngrams.h"
#include "data/sentence_rows.h"

namespace stoa::data {

struct SentenceSpanOptions {
  std::int64_t source_length = 512, target_length = 128;  // tokens in a row; what is short is padded
  double short_probability = 0.1;                         // share of samples that are made shorter on purpose
  NgramOptions ngrams{.probability = 0.15, .longest = 10, .mean = 5};
  std::uint32_t seed = 1234;
  std::vector<std::int32_t> sentinels;  // <extra_id_0>, <extra_id_1> ...
  std::int32_t eos_id = -1;
  std::int32_t start_id = 0;            // first input of the decoder, and padding
  std::vector<std::uint8_t> continues;  // by id of the vocabulary: continues the word of the token before
};

// Which n-grams are cut out is a function of (seed + sample) mod 2^32, numpy's RandomState.
class SentenceSpanDataset final : public Dataset {
 public:
  // Documents [first, last) of `data`, whose sequences are sentences. ConfigError: no sentinels, no
  // end-of-text token, a target too short for any source of full length. DataError: documents of one
  // sequence that are longer than a source: their sentences are not known.
  SentenceSpanDataset(std::shared_ptr<const IndexedDataset> data, std::int64_t first, std::int64_t last,
                      std::optional<std::int64_t> samples, const SentenceSpanOptions& options,
                      std::string_view split, const IndexCache& cache);

  std::int64_t size() const override { return rows_.size(); }
  std::int64_t sequence_length() const override { return options_.source_length + options_.target_length; }
  // DataError: more n-grams than sentinels, or more tokens than a target has: both are drawn.
  void read(std::int64_t k, BatchRow row) const override;
  std::vector<Piece> pieces(std::int64_t k) const override { return rows_.pieces(k); }

 private:
  SentenceSpanOptions options_;
  SentenceRows rows_;
};

}  // namespace stoa::data
