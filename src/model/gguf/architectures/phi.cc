// phi2: parallel branches behind one norm, LayerNorm, biases. phi3: llama with one tensor for q, k, v and one
// for gate and up, and longrope.
#include "model/gguf/architectures/architectures.h"
#include "model/gguf/keys.h"

namespace stoa::model::gguf {
namespace {

void read_phi2_metadata(JsonKeys& keys, ModelConfig& c) {
  read_sizes(keys, c);
  read_layer_norm(keys, c);
  c.activation = Activation::kGeluTanh;
  c.use_parallel_residual = true;
  c.num_ln_in_parallel_attn = 1;
  read_rotary(keys, c);
  keys.ignore("attention.layer_norm_rms_epsilon");
}

void write_phi2_metadata(const ModelSpec& spec, Json& json) {
  write_sizes(spec, json);
  json["attention.layer_norm_epsilon"] = spec.config.layernorm_epsilon;
  write_rotary(spec.config, json);
}

NameMap phi2_tensors() {
  NameMap out = block_names();
  huggingface::add_rules(out, {fused_qkv()});
  return out;
}

void read_phi3_metadata(JsonKeys& keys, ModelConfig& c) {
  read_llama_like(keys, c);
  read_every_window(keys, c);
}

void write_phi3_metadata(const ModelSpec& spec, Json& json) {
  write_llama_like(spec, json);
  if (spec.config.window_size) json["attention.sliding_window"] = *spec.config.window_size;
}

NameMap phi3_tensors() {
  NameMap out = block_names();
  huggingface::add_rules(out, {fused_qkv(), {"blk.{}.ffn_up", {"layers.{}.mlp.gate", "layers.{}.mlp.up"}}});
  return out;
}

}  // namespace

const Family kPhi2{"phi2", "PhiForCausalLM", read_phi2_metadata, write_phi2_metadata, phi2_tensors};
const Family kPhi3{"phi3", "Phi3ForCausalLM", read_phi3_metadata, write_phi3_metadata, phi3_tensors};

}  // namespace stoa::model::gguf
