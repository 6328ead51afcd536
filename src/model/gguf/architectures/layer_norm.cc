// starcoder2 and stablelm: llama's attention with LayerNorm; starcoder2 with biases and a plain MLP, stablelm
// with partial rotary positions.
#include "model/gguf/architectures/architectures.h"
#include "model/gguf/keys.h"

namespace stoa::model::gguf {
namespace {

void read_starcoder2_metadata(JsonKeys& keys, ModelConfig& c) {
  read_sizes(keys, c);
  read_layer_norm(keys, c);
  c.activation = Activation::kGeluTanh;
  read_rotary(keys, c);
}

void write_layer_norm_metadata(const ModelSpec& spec, Json& json) {
  write_sizes(spec, json);
  json["attention.layer_norm_epsilon"] = spec.config.layernorm_epsilon;
  write_rotary(spec.config, json);
}

void read_stablelm_metadata(JsonKeys& keys, ModelConfig& c) {
  read_starcoder2_metadata(keys, c);
  c.activation = Activation::kSwiglu;
  c.use_parallel_residual = keys.boolean("use_parallel_residual").value_or(false);
  require<ConfigError>(!c.use_parallel_residual, "parallel branches of stablelm are not supported");
}

NameMap layer_norm_tensors() { return block_names(); }

}  // namespace

const Family kStarcoder2{"starcoder2", "Starcoder2ForCausalLM", read_starcoder2_metadata,
                         write_layer_norm_metadata, layer_norm_tensors};
const Family kStablelm{"stablelm", "StableLmForCausalLM", read_stablelm_metadata, write_layer_norm_metadata,
                       layer_norm_tensors};

}  // namespace stoa::model::gguf
