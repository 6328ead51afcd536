// Writer of Megatron's token files, byte for byte (IndexedDatasetBuilder). Streams tokens to disk; keeps 4
// bytes per sequence and 8 per document in memory. PREFIX.bin, .idx and .stoa.json appear together in
// commit(), or none does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/made_directories.h"
#include "data/indexed_dataset.h"
#include "data/provenance.h"
#include "data/token_dtype.h"

namespace stoa::data {

class IndexedWriter {
 public:
  // Opens the temporary files at once, so that an unwritable folder is known before any work. IoError.
  IndexedWriter(const fs::path& prefix, TokenDtype dtype);
  ~IndexedWriter();

  TokenDtype dtype() const { return dtype_; }
  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t documents() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  std::int64_t tokens() const { return tokens_; }

  // One document of one sequence. An empty one is, as in Megatron, a document without sequences.
  void add_document(std::span<const std::int32_t> ids);
  // One document of several sequences: the lengths sum to ids.size().
  void add_document(std::span<const std::int32_t> ids, std::span<const std::int32_t> lengths);
  // Many documents in stored form; a length of 0 is a document without sequences.
  void add_documents(std::span<const std::byte> stored, std::span<const std::int32_t> document_lengths);
  // Many documents of several sequences each: `counts` sequences per document, whose lengths follow one
  // another.
  void add_documents(std::span<const std::byte> stored, std::span<const std::int32_t> lengths,
                     std::span<const std::int32_t> counts);
  // All documents of another data set of the same dtype (tools/merge_datasets.py). DataError when the types
  // differ.
  void append(const IndexedDataset& other);

  // Completes the files. Counts and checksums of `provenance` are filled in. The writer is then finished.
  void commit(Provenance provenance);

 private:
  class Hash;
  // The folder of the files, removed again with those above it if they were made for files that never came.
  struct Folder {
    Folder() = default;
    ~Folder() { remove_made_directories(path, highest_made); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    fs::path path, highest_made;
  };
  void write_bin(std::span<const std::byte> stored);

  fs::path prefix_;
  TokenDtype dtype_;
  Folder folder_;  // before the files, which leave them first
  std::unique_ptr<AtomicFile> bin_, idx_;
  std::unique_ptr<Hash> bin_hash_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> starts_{0};
  std::vector<std::byte> stored_;  // of one document
  std::vector<std::byte> buffer_;  // towards the .bin file
  std::int64_t tokens_ = 0;
};

}  // namespace stoa::data
