// The safetensors format: u64 little-endian header length, JSON header {name: {dtype, shape, data_offsets},
// "__metadata__": {string: string}}, data. Read through a memory map and validated strictly: what is accepted
// here can be trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "ckpt/storage_type.h"
#include "tensor/tensor_spec.h"
#include "tensor/tensor_view.h"

namespace stoa::ckpt {

// What the header says of a tensor. Offsets count from the start of the data section.
struct TensorEntry {
  std::string name;
  StorageType type = StorageType::kF32;
  std::vector<std::int64_t> shape;  // any rank
  std::uint64_t begin = 0, end = 0;

  std::int64_t elements() const;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(elements()) * size_of(type); }
  std::string shape_text() const;  // "[4, 768]"
  // Type in memory (see memory_type); DataError when there is none.
  DType dtype() const;
};
TensorEntry entry_of(const TensorSpec& spec);

struct SafetensorsHeader {
  static constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as in the reference implementation

  std::vector<TensorEntry> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
  std::uint64_t data_offset = 0;  // of the data section in the file
};

// Parses and validates a whole file in memory. DataError, which names `source`: header length beyond the file
// or the cap, JSON that is not what the format says, duplicate names, unknown types, shape x type != bytes,
// overlaps, holes, bytes missing or left over. Never reads outside `file`; allocates in proportion to the
// header.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view source);

// A tensor on the map of its file; lives as long as the file object.
struct StoredTensor {
  TensorEntry entry;
  std::span<const std::byte> bytes;

  // DataError when the rank exceeds Shape::kMaxRank.
  Shape shape() const;
  DType dtype() const { return entry.dtype(); }
  // Read-only view (writing to it is a fault). DataError also when the file does not align the data: use
  // read() then.
  TensorView view() const;
};

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const fs::path& path);

  const fs::path& path() const { return path_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;  // nullptr: not there
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  fs::path path_;
  MappedFile map_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace stoa::ckpt
