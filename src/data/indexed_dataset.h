// Reader of Megatron's token files PREFIX.bin and PREFIX.idx. Both are mapped; opening checks the whole index
// (idx_file.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"
#include "data/idx_file.h"
#include "data/provenance.h"

namespace stoa::data {

class IndexedDataset {
 public:
  // `prefix` may also be the name of either file. IoError when a file is missing (and what the folder has
  // instead), DataError when the pair is corrupt or PREFIX.stoa.json contradicts it.
  explicit IndexedDataset(const fs::path& prefix);

  const fs::path& prefix() const { return prefix_; }
  TokenDtype dtype() const { return idx_.dtype(); }
  std::int64_t sequences() const { return idx_.sequences(); }
  std::int64_t documents() const { return idx_.documents(); }
  std::int64_t tokens() const { return idx_.tokens(); }
  std::int64_t longest() const { return idx_.longest(); }
  std::int32_t length(std::int64_t sequence) const { return idx_.length(sequence); }
  std::int64_t document_start(std::int64_t i) const { return idx_.document_start(i); }
  const std::optional<Provenance>& provenance() const { return provenance_; }

  // Tokens [offset, offset + to.size()) of a sequence, as int32. DataError when the range or the type does
  // not fit.
  void read(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> to) const;

  // Reads every token: DataError at the first id outside [0, vocabulary), with its place.
  void require_ids_below(std::int64_t vocabulary) const;
  // Reads both files: DataError when a checksum of the provenance does not match. False when there is none to
  // compare.
  bool verify_checksums() const;

  std::uint64_t index_checksum() const;  // of the .idx file: identity of documents and lengths
  std::span<const std::byte> bin_bytes() const { return bin_file_.bytes(); }
  std::span<const std::byte> idx_bytes() const { return idx_file_.bytes(); }
  std::int64_t byte_offset(std::int64_t sequence) const { return idx_.offset(sequence); }

 private:
  fs::path prefix_;
  MappedFile idx_file_, bin_file_;
  IdxView idx_;
  std::optional<Provenance> provenance_;
};

// "data/x", "data/x.bin", "data/x.idx" -> "data/x".
fs::path dataset_prefix(const fs::path& path);

}  // namespace stoa::data
