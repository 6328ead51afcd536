// The tensors of Megatron's ranks, joined: every tensor of the model whole, layer by layer, under the names
// of megatron_family().
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/viewed_source.h"
#include "model/huggingface/tensor_map.h"

namespace stoa::foreign {

// Which part of the model a file holds.
struct MegatronPlace {
  std::int64_t tensor_rank = 0;
  std::int64_t first_layer = 0;   // of the decoder or the only stack: the file counts its layers from 0
  std::int64_t first_expert = 0;  // likewise
  std::int64_t order = 0;  // of what several files hold alike, such as tied embeddings, the lowest counts
};

class MegatronTensors {
 public:
  explicit MegatronTensors(model::ModelKind kind) : kind_(kind) {}

  // All tensors of `source` whose names begin with `prefix`, which must outlive this; others are ignored.
  void add(const ckpt::TensorSource& source, std::string_view prefix = "", const MegatronPlace& place = {});
  // One tensor, as if it had that name and shape: the optimizer's, which have numbers for names.
  void add(const ckpt::TensorSource& source, const ckpt::TensorEntry& entry, std::string_view name,
           const MegatronPlace& place, std::int64_t begin, std::vector<std::int64_t> shape);

  // Forgets a tensor that the model does not have of its own.
  void erase(const std::string& name) { shares_.erase(name); }
  // An older name of a tensor, where it is there.
  void rename(const std::string& from, const std::string& to) {
    if (auto node = shares_.extract(from)) {
      node.key() = to;
      shares_.insert(std::move(node));
    }
  }
  bool has(std::string_view name) const { return shares_.contains(std::string(name)); }
  bool empty() const { return shares_.empty(); }
  // Views of all of `wanted`. DataError lists what is missing, of another shape, or that no model has; `what`
  // says whose tensors they are.
  std::vector<ckpt::ViewedTensor> joined(const std::vector<model::huggingface::Tensor>& wanted, bool gated,
                                         const std::string& what) const;

 private:
  struct Share {
    const ckpt::TensorSource* source;
    const ckpt::TensorEntry* entry;
    std::int64_t begin;  // its first element
    std::vector<std::int64_t> shape;
    std::int64_t order, tensor_rank;
    int half;  // 1: the gates, 2: what they gate; 0: all
  };

  model::ModelKind kind_;
  std::map<std::string, std::vector<Share>> shares_;
};

}  // namespace stoa::foreign
