// OLMo 3: OLMo 2 with a window in three of four layers; rotary scaling applies to the others only.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/rope_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

constexpr double kOlmo3Base = 5e5;

void read_olmo3(JsonKeys& keys, ModelConfig& c) {
  read_llama_sizes(keys, c, {.vocabulary = 50304, .epsilon = 1e-5});
  c.activation = gated_activation(keys.text("hidden_act").value_or("silu"));
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  read_attention_bias(keys, c);
  c.norm_placement = NormPlacement::kAfter;
  c.qk_layernorm = c.qk_layernorm_all_heads = true;
  c.window_attn_skip_freq = 4;
  read_window(keys, c, keys.integer("sliding_window", 1).value_or(4096), 0);
  read_layered_rope(keys, c, kOlmo3Base, kOlmo3Base);
}

void write_olmo3(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_sizes(spec, json);
  json.erase("head_dim");
  json["hidden_act"] = activation_name(c.activation);
  json["attention_bias"] = c.has_qkv_bias();
  json["sliding_window"] = c.window_size.value_or(c.max_positions());
  write_layer_types(c, json);
  write_layered_rope(c, json);
}

NameMap olmo3_names() {
  NameMap out = llama_names();
  const std::vector<NameRule> norms{
      {"model.layers.{}.post_attention_layernorm", {"layers.{}.attention_norm"}},
      {"model.layers.{}.post_feedforward_layernorm", {"layers.{}.mlp_norm"}}};
  out.rules.insert(out.rules.end(), norms.begin(), norms.end());
  return out;
}

}  // namespace

const Family kOlmo3{"olmo3", "Olmo3ForCausalLM", read_olmo3, write_olmo3, olmo3_names};

}  // namespace stoa::model::huggingface
