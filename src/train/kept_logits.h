// The predictions of a teacher, kept on disk for a distillation without it: of every trained token the k
// most likely ones with their log-probabilities, and that of all others together (ops/kept_divergence.h).
//
// A directory with kept_logits.json, which says whose they are, and is written last, and files of some rows
// each (safetensors):
//   rows               int64 [rows]: what tells a row from others, a checksum of its tokens
//   tokens             int32 [rows]: trained tokens of each
//   checksums          int64 [rows]: of what is kept of each
//   ids                uint16 [trained tokens, k], int32 where the vocabulary needs it; ascending
//   log_probabilities  fp16 or fp32 [trained tokens, k + 1]
// A row of a data set is found by its checksum, so that the order of samples, the number of epochs and the
// layout of the run play no part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ckpt/safetensors.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "tensor/dtype.h"

namespace stoa::train {

struct KeptHeader {
  std::int64_t top = 0, vocabulary = 0;
  DType type = DType::kF16;  // of the log-probabilities: fp16 or fp32
  std::string teacher;       // where it was
  std::string checksum;      // of its files
  std::string tokenizer;     // its fingerprint, "" without one

  bool operator==(const KeptHeader&) const = default;
  bool short_ids() const { return vocabulary <= 65536; }
  // On disk, of a trained token.
  std::int64_t bytes_per_token() const;
};

// What is kept of a token: `top` ids, `top` + 1 log-probabilities.
struct KeptToken {
  std::vector<std::int32_t> ids;
  std::vector<float> log_probabilities;
};

// A checksum of the row's tokens, labels and boundaries, and of which tokens are trained.
std::uint64_t checksum_of_row(const data::Batch& batch, std::int64_t row);

class KeptLogitsWriter {
 public:
  // Continues in a directory that a run which was stopped has left. ConfigError: the directory is of another
  // teacher, tokenizer or `top`, or holds something else.
  KeptLogitsWriter(std::filesystem::path directory, const KeptHeader& header,
                   std::size_t file_bytes = 64 << 20);

  // Rows that are not kept yet: each file holds about `file_bytes` of them, and is there whole or not at all.
  bool has(std::uint64_t row) const { return kept_.contains(row); }
  void add(std::uint64_t row, std::span<const KeptToken> tokens);
  void flush();   // what was added since the last file, before a stop
  void commit();  // the same, and the header
  std::int64_t rows() const { return static_cast<std::int64_t>(kept_.size()); }
  std::int64_t tokens() const { return tokens_; }

 private:
  void write_header(bool complete) const;

  const std::filesystem::path directory_;
  const KeptHeader header_;
  const std::size_t file_bytes_;
  std::set<std::uint64_t> kept_;
  std::int64_t files_ = 0, tokens_ = 0;
  // The file that is being filled.
  std::vector<std::int64_t> rows_, checksums_;
  std::vector<std::int32_t> counts_;
  std::vector<std::byte> ids_, values_;
};

class KeptLogits {
 public:
  // DataError: not such a directory, not finished, or files that are torn or are not of it.
  explicit KeptLogits(const std::filesystem::path& directory);

  const KeptHeader& header() const { return header_; }
  // Only the header: a plan needs no more.
  static KeptHeader read_header(const std::filesystem::path& directory);

  // Gives every row of the batch what is kept of it. DataError: a row is missing, or damaged. Safe from
  // several threads.
  void fill(data::Batch& batch) const;
  // DataError unless all rows of the data set's first `rows` are there. `what`: "training", "validation".
  void require_rows(const data::Dataset& data, std::int64_t rows, const char* what) const;

 private:
  struct Place {
    std::size_t file = 0;
    std::int64_t begin = 0, count = 0;  // tokens in it
    std::uint64_t checksum = 0;
  };
  void open(const std::filesystem::path& path);
  void fill_row(data::Batch& batch, std::int64_t row) const;

  const std::filesystem::path directory_;
  KeptHeader header_;
  std::vector<ckpt::SafetensorsFile> files_;
  std::unordered_map<std::uint64_t, Place> places_;
};

}  // namespace stoa::train
