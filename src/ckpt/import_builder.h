// Collects the tensors of a model out of those of a checkpoint and keeps account of what was used.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ckpt/import_model.h"

namespace stoa::ckpt {

// A tensor of the checkpoint, or one layer of a tensor that holds all layers.
struct SourcePart {
  const TensorEntry* tensor = nullptr;
  std::int64_t begin = 0;           // its first element
  std::vector<std::int64_t> shape;  // without the dimension of layers
};

// Shape of a model of the Llama family or a near relative, in Hugging Face's names.
struct LlamaShape {
  std::int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, groups = 0, head_dim = 0, vocabulary = 0,
               positions = 0;
  double norm_epsilon = 1e-5, rope_base = 1e4;
  bool tied = false, qkv_bias = false, qk_norm = false;

  // config.json; llama, qwen2 (biases of q, k and v) or qwen3 (norms of q and k).
  std::string config(StorageType type) const;
};

class ImportBuilder {
 public:
  explicit ImportBuilder(const TensorSource& source) : source_(source) {}

  bool has(const std::string& name) const { return source_.find_entry(name) != nullptr; }
  // The tensor `name`. What is missing or of another shape is collected for finish().
  SourcePart whole(const std::string& name, const std::vector<std::int64_t>& shape);
  // Layer `layer` of `prefix` + `suffix`, a tensor [layers, shape…], or the tensor prefix + "N." + suffix.
  SourcePart layer(const std::string& prefix, const std::string& suffix, std::int64_t layer,
                   std::int64_t layers, const std::vector<std::int64_t>& shape);
  bool has_layer(const std::string& prefix, const std::string& suffix) const;

  // Adds a tensor of the model: rows [first, first + count) of each range, one after the other.
  struct Rows {
    std::int64_t first = 0, count = 0;
  };
  // Those of `entries` of a vocabulary in an embedding of `rows`. DataError: it has fewer, or none are asked
  // for.
  std::vector<Rows> vocabulary(std::int64_t entries, std::int64_t rows) const;
  void add(const std::string& name, const SourcePart& part) { add(name, part, {{0, part.shape.at(0)}}); }
  void add(const std::string& name, const SourcePart& part, const std::vector<Rows>& rows);

  // DataError lists what is missing, of another shape, or unused unless `needless` says so.
  std::vector<ImportedTensor> finish(const std::function<bool(const std::string&)>& needless);

 private:
  SourcePart part(const std::string& name, std::int64_t layer, std::vector<std::int64_t> whole,
                  const std::vector<std::int64_t>& shape);

  const TensorSource& source_;
  std::vector<ImportedTensor> tensors_;
  std::set<std::string> used_, problems_;
};

}  // namespace stoa::ckpt
