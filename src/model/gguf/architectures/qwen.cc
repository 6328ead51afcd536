// qwen2 (biases of q, k, v), qwen3 (a norm of q and k per head), qwen3moe (with experts in every layer).
#include "model/gguf/architectures/architectures.h"
#include "model/gguf/keys.h"

namespace stoa::model::gguf {
namespace {

NameMap qwen_tensors() { return block_names(); }

void read_qwen3_metadata(JsonKeys& keys, ModelConfig& c) {
  read_llama_like(keys, c);
  c.qk_layernorm = true;
}

void read_qwen3_moe_metadata(JsonKeys& keys, ModelConfig& c) {
  read_qwen3_metadata(keys, c);
  read_expert_counts(keys, c);
  keys.ignore("expert_weights_norm");  // true of them all
}

void write_qwen3_moe_metadata(const ModelSpec& spec, Json& json) {
  write_llama_like(spec, json);
  write_expert_counts(spec.config, json);
  json["expert_feed_forward_length"] = spec.config.moe_ffn_size();
}

NameMap qwen3_moe_tensors() {
  NameMap out = block_names();
  huggingface::add_rules(out, packed_experts());
  return out;
}

}  // namespace

const Family kQwen2{"qwen2", "Qwen2ForCausalLM", read_llama_like, write_llama_like, qwen_tensors};
const Family kQwen3{"qwen3", "Qwen3ForCausalLM", read_qwen3_metadata, write_llama_like, qwen_tensors};
const Family kQwen3Moe{"qwen3moe", "Qwen3MoeForCausalLM", read_qwen3_moe_metadata, write_qwen3_moe_metadata,
                       qwen3_moe_tensors};

}  // namespace stoa::model::gguf
