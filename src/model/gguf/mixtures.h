// In which formats the tensors of a GGUF file are written: one for all matrices, or a mixture of llama.cpp's
// (q4_k_m), in which the tensors that matter most have more bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quant/block_format.h"

namespace stoa::model::gguf {

struct Mixture {
  std::string_view name;    // "q4_k_m"
  quant::BlockType most;    // of most matrices
  quant::BlockType output;  // of the output matrix, or of an embedding that is one
  quant::BlockType some;    // of attn_v and ffn_down in a part of the layers
  std::uint32_t file_type;  // general.file_type
};

// ConfigError: none of that name; names the known ones.
const Mixture& mixture(std::string_view name);
std::vector<std::string> mixture_names();

struct TensorPlace {
  std::string_view name;  // "blk.3.attn_v.weight"
  std::vector<std::int64_t> shape;
  std::int64_t layers = 0;
  bool tied = false;  // the embedding is the output matrix
};
// Vectors, norms, routers and tables of positions stay F32. Rows that are not whole blocks get a format with
// smaller blocks, as llama.cpp does.
const quant::BlockFormat& format_of(const Mixture& mixture, const TensorPlace& place);

}  // namespace stoa::model::gguf
