// A model's weights as torch.save wrote them: pytorch_model.bin, or shards pytorch_model-00001-of-00003.bin
// with pytorch_model.bin.index.json, or the only .pt or .pth file of a directory.
#pragma once

#include <filesystem>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ckpt/tensor_source.h"
#include "ckpt/torch/torch_file.h"

namespace stoa::ckpt::torch {

inline constexpr std::string_view kTorchModelStem = "pytorch_model";

class TorchDirectory : public TensorSource {
 public:
  // IoError: a shard is missing (all missing ones are listed). DataError: damaged index or shard, a file that
  // holds something other than tensors by name, a tensor that its shard does not hold or that two shards
  // hold, a type that safetensors do not have. `place`: the directory, or a single file.
  explicit TorchDirectory(fs::path place, std::string_view stem = kTorchModelStem);

  // Is there such a set of files? Looks at names only; a directory whose only weights are a .pt or .pth file
  // has config.json too.
  static bool exists(const fs::path& directory, std::string_view stem = kTorchModelStem);

  std::size_t file_count() const override { return files_.size(); }
  std::span<const std::byte> elements(const TensorEntry& tensor, std::int64_t begin, std::int64_t end,
                                      std::vector<std::byte>& scratch) const override;
  bool check_sums() const override;

 private:
  struct Tensor {
    TensorEntry entry;
    const TorchFile* file;
    const TensorValue* value;
  };
  void add(const fs::path& path);
  void add_tensors(const TorchFile& file, const Value& tensors, bool nested);

  std::vector<std::unique_ptr<TorchFile>> files_;
  std::unordered_map<std::string, Tensor> tensors_;
};

}  // namespace stoa::ckpt::torch
