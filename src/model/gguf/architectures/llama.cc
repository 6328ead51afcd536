// llama: Llama 2 and 3, Mistral, Mixtral, SmolLM and whoever took their form. Rows of q and k are stored pair
// by pair.
#include "model/gguf/architectures/architectures.h"
#include "model/gguf/keys.h"

namespace stoa::model::gguf {
namespace {

void read_llama_metadata(JsonKeys& keys, ModelConfig& c) {
  read_llama_like(keys, c);
  read_expert_counts(keys, c);
}

void write_llama_metadata(const ModelSpec& spec, Json& json) {
  write_llama_like(spec, json);
  write_expert_counts(spec.config, json);
  if (spec.config.moe.num_moe_experts) json["feed_forward_length"] = spec.config.moe_ffn_size();
}

// Biases of q, k and v alone are what qwen2 is for.
bool is_qwen2(const ModelConfig& c) { return c.has_qkv_bias() && !c.has_attention_output_bias(); }

NameMap llama_tensors() {
  NameMap out = block_names(true);
  huggingface::add_rules(out, packed_experts());
  return out;
}

}  // namespace

const Family kLlama{
    "llama", "LlamaForCausalLM", read_llama_metadata, write_llama_metadata, llama_tensors, nullptr, is_qwen2};

}  // namespace stoa::model::gguf
