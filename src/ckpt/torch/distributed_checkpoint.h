// A directory that torch.distributed.checkpoint wrote: `.metadata`, and files that hold each rank's parts
// (`__0_0.distcp`). Megatron-Core's torch_dist checkpoints and torchtitan's are such directories.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "ckpt/file_set.h"
#include "ckpt/tensor_source.h"
#include "ckpt/torch/torch_file.h"

namespace stoa::ckpt::torch {

class DistributedCheckpoint : public TensorSource {
 public:
  // `files`: of such a directory, wherever they lie.
  explicit DistributedCheckpoint(std::shared_ptr<const FileSet> files);
  // IoError: no such directory, files that do not exist (all of them). DataError: damaged, parts that do not
  // make up their tensor, parts in a form other than torch.save's.
  explicit DistributedCheckpoint(fs::path directory);

  // Is there such a directory? Looks at names only.
  static bool exists(const fs::path& directory);

  std::size_t file_count() const override { return used_files_.size(); }
  // Puts the parts together; only those that hold some of the elements are read.
  std::span<const std::byte> elements(const TensorEntry& tensor, std::int64_t begin, std::int64_t end,
                                      std::vector<std::byte>& scratch) const override;
  bool check_sums() const override;

  // What the ranks saved that is no tensor of a type that safetensors have: names of objects and of tensors,
  // in the order of names.
  const std::vector<std::string>& other_items() const { return other_items_; }

 private:
  struct Part {
    std::vector<std::int64_t> offsets, sizes;
    std::span<const std::byte> bytes;  // a file of torch.save
    std::string source;                // for messages
  };
  struct Tensor {
    TensorEntry entry;
    std::vector<Part> parts;
  };
  struct Place;  // of a part: file, offset, length

  std::span<const std::byte> file_part(const std::string& file, std::int64_t offset, std::int64_t length);
  void check_parts(const Tensor& tensor) const;
  // The tensor that the part's file holds, after comparing it with what the metadata says.
  const TensorValue& tensor_of(const TorchFile& file, const Tensor& tensor, const Part& part) const;
  const TorchFile& opened(const Part& part) const;

  const std::shared_ptr<const FileSet> files_;
  std::set<std::string> used_files_;
  std::unordered_map<std::string, Tensor> tensors_;
  std::vector<std::string> other_items_;
  // Files of parts that were read, by the part: their directories are parsed once.
  mutable std::mutex opening_;
  mutable std::unordered_map<const Part*, std::unique_ptr<const TorchFile>> opened_;
};

}  // namespace stoa::ckpt::torch
