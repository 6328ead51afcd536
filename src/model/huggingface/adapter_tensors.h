// The tensors of an adapter's file, in PEFT's form, and how they relate to canonical ones.
#pragma once

#include <string_view>

#include "model/adapter_plan.h"

namespace stoa::model::huggingface {

struct AdapterTensor {
  // Its module's path in the model's files and the end that PEFT gives it, or the name of a tensor of the
  // model itself: unlike the name in the adapter's file, unique to what it belongs to.
  std::string key;
  // As in the model's files; the shape is that of `experts` stacked [outputs, rank] where `rank_major`.
  Tensor tensor;
  // The file has [outputs, rank x experts] instead: PEFT's matrices B of experts that are one parameter.
  bool rank_major = false;
  // The file has the parts side by side, `tensor` one below the other.
  bool side_by_side = false;
  // Not a parameter: what the encoder of p-tuning makes of its own (infer/prompt_table.h).
  bool computed = false;
  // The head of a model that ties it to the embedding, where that is trained in full: the same numbers once
  // more. PEFT writes it with ensure_weight_tying; other files may leave it out.
  bool repeats_embedding = false;

  const std::string& name() const { return tensor.name; }
  Shape shape() const;  // in the file
};

// All tensors of the adapter of `spec`, which has one: A and B of every module, and its magnitudes, then what
// is trained of the model itself, and rows of single tokens. Of virtual tokens PEFT's one tensor, then those
// of an encoder, which PEFT leaves out.
std::vector<AdapterTensor> adapter_tensors(const ModelSpec& spec);

// Whether a canonical tensor has a row for every token: the embedding or the head.
inline bool is_token_matrix(std::string_view canonical) {
  return canonical == "embedding.tokens.weight" || canonical == "head.weight";
}

// As gather() and scatter() of tensor_map.h.
void gather_adapter(const AdapterTensor& tensor, DType type, const ReadPart& canonical, std::byte* file);
void scatter_adapter(const AdapterTensor& tensor, DType type, const std::byte* file,
                     const WritePart& canonical);

// What all names of an adapter's file begin with.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";
// The end of PEFT's tensor of single rows of an embedding or a head; despite its name it holds the rows
// themselves.
inline constexpr std::string_view kTokenRows = ".token_adapter.trainable_tokens_delta";
// PEFT's tensor of virtual tokens.
inline constexpr const char* kPromptEmbeddings = "prompt_embeddings";
// How names of the model's own tensors begin in such files.
inline constexpr const char* kVirtualPrefix = "base_model.";

}  // namespace stoa::model::huggingface
