// One file of torch.save whose tensors lie anywhere in a tree of dicts and lists: a training checkpoint.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ckpt/tensor_source.h"
#include "ckpt/torch/torch_file.h"

namespace stoa::ckpt::torch {

// Its tensors are named by their way from the root: keys of dicts ("#3": the fourth pair, whose key is
// neither text nor number), numbers of list entries, separated by dots
// ("model.decoder.final_layernorm.weight", "optimizer.state.3.exp_avg"). Tensors of types that safetensors do
// not have, and those that a name stands for twice, are ignored.
class TorchTree : public TensorSource {
 public:
  static constexpr int kMostDepth = 32;
  static constexpr std::size_t kMostNodes = 8'000'000;

  // IoError, DataError: as TorchFile; a tree that is deeper, or larger, than any checkpoint.
  explicit TorchTree(const fs::path& path);
  // A file in memory, which must outlive this.
  TorchTree(std::span<const std::byte> bytes, const std::string& source);

  const TorchFile& file() const { return file_; }
  Value root() const { return file_.root(); }
  // Names in the order of the file, which is that of a model's parameters.
  const std::vector<const TensorEntry*>& in_order() const { return in_order_; }

  std::size_t file_count() const override { return 1; }
  std::span<const std::byte> elements(const TensorEntry& tensor, std::int64_t begin, std::int64_t end,
                                      std::vector<std::byte>& scratch) const override;
  bool check_sums() const override { return file_.check_sums(); }

 private:
  struct Tensor {
    TensorEntry entry;
    const TensorValue* value;
  };
  void collect();
  void walk(const Value& value, std::string& name, int depth);

  TorchFile file_;
  std::unordered_map<std::string, std::unique_ptr<Tensor>> tensors_;
  std::vector<const TensorEntry*> in_order_;
  std::size_t nodes_ = 0;
};

}  // namespace stoa::ckpt::torch
