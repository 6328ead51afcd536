// Files that torch.save wrote: a pickle and the storages of its tensors, in a zip file or, before
// PyTorch 1.6, one after the other. Tensors are read from a memory map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "ckpt/torch/pickle.h"
#include "ckpt/torch/zip_directory.h"

namespace stoa::ckpt::torch {

class TorchFile {
 public:
  // IoError; DataError, which names the file: damaged, or it holds more than data (pickle.h, TorchScript).
  explicit TorchFile(const fs::path& path);
  // A part of a file, which outlives this.
  TorchFile(std::span<const std::byte> bytes, std::string source);
  TorchFile(const TorchFile&) = delete;
  TorchFile& operator=(const TorchFile&) = delete;

  const std::string& source() const { return source_; }
  Value root() const { return pickle_->root(); }
  // Elements [begin, end) of a tensor of this file in row-major order: on the map where they lie together
  // there, otherwise put together in `scratch`. DataError: its storage is missing or too short.
  std::span<const std::byte> elements(const TensorValue& tensor, std::int64_t begin, std::int64_t end,
                                      std::vector<std::byte>& scratch) const;
  // Compares the file with its checksums; false: it has none. DataError names the part that differs.
  bool check_sums() const { return zip_ && zip_->check_sums(); }

 private:
  void read(std::span<const std::byte> bytes);
  void read_zip(std::span<const std::byte> bytes);
  void read_sequence(std::span<const std::byte> bytes);

  MappedFile map_;
  std::string source_;
  std::optional<ZipDirectory> zip_;
  std::optional<Pickle> pickle_;
  std::unordered_map<std::string, std::span<const std::byte>> storages_;  // by key
};

}  // namespace stoa::ckpt::torch
