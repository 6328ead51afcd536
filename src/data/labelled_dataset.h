// Samples of a labelled task: texts that were read whole and encoded, each a row that ends where its tokens
// end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace stoa::data {

// One row. A label is that of a token; the answer of a question is two of them (see `second_label`).
struct LabelledRow {
  struct Label {
    std::int32_t token, label;
  };
  std::vector<std::int32_t> tokens, token_types;
  std::vector<Label> labels;      // by rising token
  std::int32_t second_label = 0;  // of question answering: the token that ends the answer
  std::string file;               // where it comes from: a path
  std::int64_t line = 0;          // from 1
};

class LabelledDataset final : public Dataset {
 public:
  struct Options {
    std::int64_t sequence_length = 512;
    std::int32_t pad = 0;
    std::uint32_t seed = 1234;
    bool shuffled = true;  // every epoch in an order of its own
    // So many rows are one group: they follow each other in every order. Divides the number of rows.
    std::int64_t together = 1;
  };

  // `samples`: unset = one epoch. InternalError: no rows, or one longer than the sequence length.
  LabelledDataset(std::vector<LabelledRow> rows, std::optional<std::int64_t> samples, const Options& options);

  std::int64_t size() const override { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t sequence_length() const override { return options_.sequence_length; }
  bool masked() const override { return true; }
  void read(std::int64_t k, BatchRow row) const override;
  std::vector<Piece> pieces(std::int64_t k) const override;

  const LabelledRow& row(std::int64_t k) const;  // of sample k

 private:
  std::vector<LabelledRow> rows_;
  std::vector<std::uint32_t> order_;  // row of every sample
  Options options_;
};

}  // namespace stoa::data
