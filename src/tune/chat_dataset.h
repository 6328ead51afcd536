// Tuning samples in rows: packed, or one per row. A row is a pure function of the samples, the options and
// its number.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "data/dataset.h"
#include "tune/encoded.h"

namespace stoa::tune {

// The samples of some files, in the order of the files.
struct EncodedFiles {
  std::vector<EncodedSample> samples;
  std::vector<Place> records;  // by EncodedSample::record
};

// The token whose score is that of a text: the last that is not padding, as in transformers, where padding
// may be the token that ends texts.
std::int64_t scored_token(std::span<const token::TokenId> text, std::optional<std::int32_t> padding);

// What a row holds of a sample: [begin, end) of the row's tokens, virtual ones included.
struct RowText {
  std::uint32_t sample = 0;
  bool rejected = false;  // the second text of a pair
  std::int32_t begin = 0, end = 0;
};

class ChatDataset final : public data::Dataset {
 public:
  struct Options {
    std::int64_t sequence_length = 2048;
    bool packed = true;
    std::int32_t pad = 0;
    std::uint32_t seed = 1234;
    bool shuffled = true;  // every epoch in an order of its own
    // Virtual tokens in front of every text, and the id of the first (nn/adapter_policy.h).
    std::int32_t virtual_tokens = 0, first_virtual = 0;
    // Texts have scores: the loss of each is that of its scored_token(), whose own position counts.
    // `unscored` is the tokenizer's padding.
    bool scored = false;
    std::optional<std::int32_t> unscored = {};
  };

  // `rows`: unset = one epoch. InternalError: no samples, or one longer than a row.
  ChatDataset(std::shared_ptr<const EncodedFiles> files, std::optional<std::int64_t> rows,
              const Options& options);

  std::int64_t size() const override { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t sequence_length() const override { return options_.sequence_length; }
  void read(std::int64_t k, data::BatchRow row) const override;
  // `sequence` is the number of the record in its file.
  std::vector<data::Piece> pieces(std::int64_t k) const override;

  std::vector<RowText> texts(std::int64_t k) const;
  // The same samples, every row once.
  ChatDataset one_epoch() const { return ChatDataset(files_, std::nullopt, options_); }
  const EncodedFiles& files() const { return *files_; }
  std::int64_t rows_per_epoch() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t trained_tokens() const;  // of an epoch
  bool scored() const { return options_.scored; }
  // Share of the tokens of an epoch's rows that belong to samples.
  double fill() const;

 private:
  const std::vector<std::uint32_t>& row(std::int64_t k) const;
  std::int64_t tokens_of(const EncodedSample& sample) const;  // in a row

  std::shared_ptr<const EncodedFiles> files_;
  std::vector<std::vector<std::uint32_t>> rows_;  // samples
  std::vector<std::uint32_t> order_;              // row of every k
  Options options_;
};

}  // namespace stoa::tune
