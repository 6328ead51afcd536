// Writes one safetensors file at offsets known before the first byte: tensors and their pieces come in any
// order, from several threads, or from several processes that lay out the same list.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/checksum.h"
#include "ckpt/positioned_file.h"
#include "ckpt/safetensors.h"
#include "tensor/shard_spec.h"

namespace stoa::ckpt {

// Where everything goes: a pure function of the tensors. Wider types first, then by name, so that all data is
// aligned; the header is padded with spaces to 8 bytes. InternalError on a name given twice.
class SafetensorsLayout {
 public:
  explicit SafetensorsLayout(std::vector<TensorEntry> tensors,
                             const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const std::string& header() const { return header_; }  // length and JSON
  std::uint64_t file_bytes() const { return header_.size() + data_bytes_; }

 private:
  std::vector<TensorEntry> tensors_;
  std::string header_;
  std::uint64_t data_bytes_ = 0;
};

enum class WriteMode : std::uint8_t {
  kAtomic,   // under a temporary name until commit(); for directories that others read
  kInPlace,  // under its name at once; for directories that are temporary themselves
  kJoint,    // in place, and other processes write the rest: completeness is theirs to check together
};

class SafetensorsWriter {
 public:
  SafetensorsWriter(fs::path path, SafetensorsLayout layout, WriteMode placement);
  ~SafetensorsWriter();  // without commit(): the temporary file is removed

  // Thread-safe, each. Floating-point views are converted to the tensor's type on the way.
  void write(const std::string& name, const TensorView& tensor);
  void write(const ShardPiece& piece, const TensorView& local,
             const std::optional<FlatRange>& flat = std::nullopt);
  void write_bytes(const std::string& name, std::span<const std::byte> bytes);  // whole tensor, as stored

  // Elements [begin, …) of a tensor in row-major order, as stored.
  void write_elements(const std::string& name, std::int64_t begin, std::span<const std::byte> bytes);

  // Syncs, renames (kAtomic). InternalError lists tensors of which elements were not written, or written
  // twice.
  void commit();
  const SafetensorsLayout& layout() const { return layout_; }

  // After commit(): XXH3 of the file, where its bytes were written in their order and all of them here;
  // otherwise none, and who wants it reads the file.
  std::optional<std::uint64_t> checksum() const;

  // kJoint: what the bytes that were written here add to the CRC-32 of the whole file (crc32_part), without
  // and with the header, which every writer writes.
  std::uint32_t crc_of_tensors() const { return crc_; }
  std::uint32_t crc_of_header() const;

 private:
  std::size_t index_of(const std::string& name) const;
  void write_run(std::size_t index, std::int64_t element, const std::byte* data, DType type,
                 std::int64_t count);
  void write_bytes_at(std::uint64_t offset, const std::byte* data, std::size_t bytes);
  // Adds to the checksum what follows the bytes that it has.
  void sum(std::uint64_t offset, std::span<const std::byte> bytes);

  const fs::path path_;
  fs::path temporary_;
  const WriteMode placement_;
  const SafetensorsLayout layout_;
  std::unordered_map<std::string, std::size_t> index_;
  std::unique_ptr<std::atomic<std::int64_t>[]> written_;  // elements per tensor
  std::atomic<std::uint32_t> crc_{0};
  std::mutex summing_;
  RunningChecksum sum_;
  std::uint64_t summed_ = 0;  // bytes from the beginning of the file
  PositionedFile file_;
  bool committed_ = false;
};

}  // namespace stoa::ckpt
