// olmo2: llama with norms after the branches, and norms of q and k over all heads.
#include "model/gguf/architectures/architectures.h"
#include "model/gguf/keys.h"

namespace stoa::model::gguf {
namespace {

void read_olmo2_metadata(JsonKeys& keys, ModelConfig& c) {
  read_llama_like(keys, c);
  c.norm_placement = NormPlacement::kAfter;
  c.qk_layernorm = c.qk_layernorm_all_heads = true;
}

NameMap olmo2_tensors() { return block_names(); }

}  // namespace

const Family kOlmo2{"olmo2", "Olmo2ForCausalLM", read_olmo2_metadata, write_llama_like, olmo2_tensors};

}  // namespace stoa::model::gguf
