// A directory of safetensors: `STEM.safetensors`, or shards `STEM-00001-of-00003.safetensors` with
// `STEM.safetensors.index.json`, as Hugging Face lays out models (STEM "model").
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ckpt/safetensors.h"
#include "ckpt/safetensors_writer.h"
#include "ckpt/shard_io.h"
#include "ckpt/tensor_source.h"

namespace stoa::ckpt {

inline constexpr std::string_view kModelStem = "model";
inline constexpr std::uint64_t kDefaultShardBytes = 5'000'000'000;

class TensorDirectory : public TensorSource {
 public:
  // IoError: nothing there (lists what is), a shard is missing (all missing ones are listed). DataError:
  // damaged index or shard, an index that leaves the directory, a tensor that its shard does not hold or that
  // two shards hold.
  explicit TensorDirectory(fs::path directory, std::string_view stem = kModelStem);

  // Is there such a set of files? Looks at names only.
  static bool exists(const fs::path& directory, std::string_view stem = kModelStem);

  const std::vector<const StoredTensor*>& tensors() const { return tensors_; }  // by name
  const StoredTensor* find(std::string_view name) const;                        // nullptr: not there
  const StoredTensor& at(std::string_view name) const;  // DataError with the nearest name
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }
  std::size_t file_count() const override { return files_.size(); }
  std::span<const std::byte> elements(const TensorEntry& tensor, std::int64_t begin, std::int64_t end,
                                      std::vector<std::byte>& scratch) const override;

 private:
  void open_shards(std::string_view stem);
  void add(const fs::path& path);

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<const StoredTensor*> tensors_;
  std::unordered_map<std::string_view, const StoredTensor*> index_;
};

// What is wrong between tensors that a model needs and those of a file, all of it in one DataError: missing,
// unexpected (unless `ignore` says so), wrong shape. The empty string: nothing.
std::string compare_tensors(const std::vector<TensorSpec>& expected, const TensorDirectory& found,
                            const std::function<bool(std::string_view)>& ignore = nullptr);
void require_tensors(const std::vector<TensorSpec>& expected, const TensorDirectory& found,
                     const std::function<bool(std::string_view)>& ignore = nullptr);

// Writes such a directory. The cut into shards is a pure function of the tensors and the largest shard's
// size.
class ShardedWriter {
 public:
  ShardedWriter(fs::path directory, std::string_view stem, std::vector<TensorEntry> tensors,
                WriteMode placement, std::uint64_t max_shard_bytes = kDefaultShardBytes);

  // As in SafetensorsWriter; thread-safe.
  void write(const std::string& name, const TensorView& tensor) { shard_of(name).write(name, tensor); }
  void write(const ShardPiece& piece, const TensorView& local,
             const std::optional<FlatRange>& flat = std::nullopt) {
    shard_of(piece.name).write(piece, local, flat);
  }
  void write(const ShardSpec& shard, const TensorView& local);  // all its pieces
  void write_bytes(const std::string& name, std::span<const std::byte> bytes) {
    shard_of(name).write_bytes(name, bytes);
  }
  void write_elements(const std::string& name, std::int64_t begin, std::span<const std::byte> bytes) {
    shard_of(name).write_elements(name, begin, bytes);
  }

  void commit();                     // all files, the index last
  std::uint64_t file_bytes() const;  // of all shards
  std::size_t shards() const { return writers_.size(); }
  // After commit(): the checksums of those files whose bytes came in order, by name.
  std::map<std::string, std::uint64_t> checksums() const;

  // kJoint: of every shard what was written here adds to its CRC-32; `header`: this writer counts it.
  struct PartSum {
    std::string file;
    std::uint64_t bytes = 0;  // of the whole file
    std::uint32_t crc = 0;
  };
  std::vector<PartSum> part_sums(bool header) const;

 private:
  SafetensorsWriter& shard_of(const std::string& name);

  const fs::path directory_;
  const std::string stem_;
  const WriteMode placement_;
  std::vector<std::unique_ptr<SafetensorsWriter>> writers_;
  std::map<std::string, std::size_t> shard_index_;
  std::vector<std::string> names_;
  std::uint64_t total_bytes_ = 0;
};

std::vector<TensorEntry> entries_of(const std::vector<TensorSpec>& specs);

}  // namespace stoa::ckpt
