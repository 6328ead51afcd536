// Samples of consecutive sentences of a document: which sentences each has, and their tokens.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/index_cache.h"
#include "data/sentence_index.h"

namespace stoa::data {

class SentenceRows {
 public:
  // Sentences [begin, end) of the file give a sample of `target` tokens at most, special ones not counted.
  struct Row {
    std::int64_t begin, end, target;
  };

  // `data`: documents whose sequences are sentences; `input` selects documents, its `data` is ignored. The
  // cached index is named `kind`, and its description is that of Megatron's `megatron_class`. DataError: no
  // such documents, no token ids, or no document gives a sample.
  SentenceRows(std::shared_ptr<const IndexedDataset> data, SentenceIndexInput input, std::string_view kind,
               std::string_view megatron_class, std::string_view split, const IndexCache& cache);

  std::int64_t size() const { return rows_.rows() / 3; }
  std::string name() const { return data_->prefix().string(); }
  // DataError: no such sample, a damaged cache.
  Row row(std::int64_t k) const;
  std::vector<Piece> pieces(std::int64_t k) const;
  // Tokens of sentences [begin, end). DataError: an id of `vocabulary` or more.
  std::vector<std::int32_t> tokens(std::int64_t begin, std::int64_t end, std::int64_t vocabulary) const;

 private:
  std::shared_ptr<const IndexedDataset> data_;
  std::int64_t longest_, least_sentences_;
  NpyArray rows_;
};

}  // namespace stoa::data
