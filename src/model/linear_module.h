// The matrices of a model's files that can be adapted.
//
// A module is such a matrix ("model.layers.0.self_attn.q_proj"): it has one A and one B, as in PEFT, so that
// an adapter can be exchanged. Where a family stores q, k and v as one matrix, they share an A.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/huggingface/tensor_map.h"
#include "model/model_spec.h"

namespace stoa::model {

enum class ModuleKind : std::uint8_t { kLayer, kEmbedding, kHead };

// A linear layer of the model's files, or the matrix with a row for every token.
struct LinearModule {
  std::string path;  // of the module: "model.layers.0.self_attn.q_proj"
  std::string name;  // canonical, of what its pieces share: A's, without ".lora_A.weight"
  struct Piece {
    std::string name;  // of a canonical matrix, without ".weight"
    std::int64_t outputs = 0;
  };
  std::vector<Piece> pieces;
  std::optional<std::int64_t> layer;
  std::int64_t inputs = 0;
  // Rows of the file's matrix (of its transpose where the file has that), as those of its pieces. Empty: the
  // pieces are not all of the matrix, which then cannot be adapted.
  std::vector<huggingface::RowRun> rows;
  bool transposed = false;   // in the file (gpt2's Conv1D)
  std::int64_t experts = 1;  // whose matrices are one tensor of the file: modules with the same path
  ModuleKind kind = ModuleKind::kLayer;

  std::int64_t outputs() const;
  std::vector<std::string> piece_names() const;
  std::string last_word() const { return path.substr(path.rfind('.') + 1); }  // "q_proj"
  // Whether it belongs to an expert whose matrices are tensors of their own in the files.
  bool is_single_expert() const {
    return experts == 1 && pieces.front().name.find(".experts.") != std::string::npos;
  }
};
// All linear layers but the head, in the order of the layers. Adapters of `spec` are disregarded.
std::vector<LinearModule> linear_modules(const ModelSpec& spec, const huggingface::Family& family);
// The embedding of tokens and the head of a language model, also where the two are tied. Encoders have no
// head here, and encoder-decoders nothing: their parts have embeddings of their own in transformers.
std::vector<LinearModule> token_modules(const ModelSpec& spec, const huggingface::Family& family);

// The path of the module that has a tensor of the files: its name without ".weight" or ".bias".
std::string module_path(const std::string& tensor);
// A name without its last word: "layers.0.attention.q" of "layers.0.attention.q.weight".
std::string without_suffix(const std::string& name);
// The model without its adapters.
ModelSpec base_of(const ModelSpec& spec);

}  // namespace stoa::model
