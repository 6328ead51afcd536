// gpt2 and gptneox: LayerNorm, biases, GELU, one tensor for q, k and v, which follow each other.
#include "model/gguf/architectures/architectures.h"
#include "model/gguf/keys.h"

namespace stoa::model::gguf {
namespace {

void read_gpt2_metadata(JsonKeys& keys, ModelConfig& c) {
  read_sizes(keys, c);
  read_layer_norm(keys, c);
  c.activation = Activation::kGeluTanh;
  c.position_embedding_type = PositionEmbedding::kLearnedAbsolute;
}

void write_gpt2_metadata(const ModelSpec& spec, Json& json) {
  write_sizes(spec, json);
  json["attention.layer_norm_epsilon"] = spec.config.layernorm_epsilon;
}

void read_gpt_neox_metadata(JsonKeys& keys, ModelConfig& c) {
  read_gpt2_metadata(keys, c);
  c.activation = Activation::kGelu;
  c.use_parallel_residual = keys.boolean("use_parallel_residual").value_or(true);
  read_rotary(keys, c);
}

void write_gpt_neox_metadata(const ModelSpec& spec, Json& json) {
  write_gpt2_metadata(spec, json);
  json["use_parallel_residual"] = spec.config.use_parallel_residual;
  write_rotary(spec.config, json);
}

NameMap gpt_tensors() {
  NameMap out = block_names();
  huggingface::add_rules(out, {fused_qkv()});
  return out;
}

}  // namespace

const Family kGpt2{"gpt2", "GPT2LMHeadModel", read_gpt2_metadata, write_gpt2_metadata, gpt_tensors};
const Family kGptNeox{"gptneox", "GPTNeoXForCausalLM", read_gpt_neox_metadata, write_gpt_neox_metadata,
                      gpt_tensors};

}  // namespace stoa::model::gguf
