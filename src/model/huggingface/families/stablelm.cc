// StableLM 2 (2402.17834): llama with LayerNorm and partial rotary positions; the 12B has parallel branches
// with one shared norm.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_stablelm(JsonKeys& keys, ModelConfig& c) {
  read_llama_sizes(keys, c,
                   {.vocabulary = 50304, .hidden = 2560, .ffn = 6912, .groups = 32, .positions = 4096});
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_eps").value_or(1e-5);
  c.activation = gated_activation(keys.text("hidden_act").value_or("silu"));
  set_biases(c, keys.boolean("use_qkv_bias").value_or(false), false, false);
  keys.only("qk_layernorm", false);
  c.use_parallel_residual = keys.boolean("use_parallel_residual").value_or(false);
  if (c.use_parallel_residual) c.num_ln_in_parallel_attn = 1;
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  c.hidden_dropout = keys.number("hidden_dropout").value_or(0);
  read_rope(keys, c, {.share = 0.25});
  check_rotated_pairs(c);
}

void write_stablelm(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json.erase("rms_norm_eps");
  json["layer_norm_eps"] = c.layernorm_epsilon;
  json["use_qkv_bias"] = c.has_qkv_bias();
  json["qk_layernorm"] = false;
  json["use_parallel_residual"] = c.use_parallel_residual;
  json["hidden_dropout"] = c.hidden_dropout;
  json["partial_rotary_factor"] = c.rotary_percentage;
  json["rope_parameters"]["partial_rotary_factor"] = c.rotary_percentage;
}

}  // namespace

const Family kStablelm{"stablelm", "StableLmForCausalLM", read_stablelm, write_stablelm, llama_names};

}  // namespace stoa::model::huggingface
