// A directory that torch.distributed.checkpoint wrote: `.metadata`, and files that hold each rank's parts
// (`__0_0.distcp`). Megatron-Core's torch_dist checkpoints and torchtitan's are such directories.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "ckpt/tensor_source.h"
#include "ckpt/torch/torch_file.h"

namespace stoa::ckpt::torch {

class DistributedCheckpoint : public TensorSource {
 public:
  // IoError: no such directory, files that do not exist (all of them). DataError: damaged, parts that do not
  // make up their tensor, parts in a form other than torch.save's.
  explicit DistributedCheckpoint(fs::path directory);

  // Is there such a directory? Looks at names only.
  static bool exists(const fs::path& directory);

  std::size_t file_count() const override { return files_.size(); }
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

  std::map<std::string, MappedFile> files_;
  std::unordered_map<std::string, Tensor> tensors_;
  std::vector<std::string> other_items_;
};

}  // namespace stoa::ckpt::torch
