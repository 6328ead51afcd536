// A data set is a pure function of the sample index.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"

namespace stoa::data {

// Where tokens of a sample come from: `length` tokens from `offset` of sequence `sequence` of the token file
// `prefix`.
struct Piece {
  std::string prefix;
  std::int64_t sequence = 0, offset = 0, length = 0;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;  // samples
  virtual std::int64_t sequence_length() const = 0;
  // Samples are those of a masked language model: rows have token types and a sentence label, and may end
  // early.
  virtual bool masked() const { return false; }
  // Fills one row with sample k in [0, size()). Const and safe from several threads. DataError on corrupt
  // content.
  virtual void read(std::int64_t k, BatchRow row) const = 0;
  // The documents that sample k is cut from, in order.
  virtual std::vector<Piece> pieces(std::int64_t k) const = 0;
};

// Fills `batch` with the given samples, one per row, and counts the valid tokens.
void fill_batch(const Dataset& dataset, std::span<const std::int64_t> samples, Batch& batch);

}  // namespace stoa::data
