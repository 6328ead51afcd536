#include "model/huggingface/gemma_keys.h"

#include "model/huggingface/json_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {

void read_gemma_keys(JsonKeys& keys, ModelConfig& c, const LlamaDefaults& defaults) {
  read_llama_sizes(keys, c, defaults);
  keys.ignore("hidden_act");  // of the first files; what counts is hidden_activation
  c.activation = gated_activation(keys.text("hidden_activation").value_or("gelu_pytorch_tanh"));
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  read_attention_bias(keys, c);
  c.norm_placement = NormPlacement::kBoth;
  c.apply_embedding_scaling = true;
  c.query_pre_attn_scalar = keys.number("query_pre_attn_scalar").value_or(256);
}

void write_gemma_keys(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_sizes(spec, json);
  json["hidden_activation"] = activation_name(c.activation);
  json["hidden_act"] = activation_name(c.activation);
  json["attention_bias"] = c.has_qkv_bias();
  const double scalar = c.query_pre_attn_scalar.value_or(static_cast<double>(c.head_size()));
  const auto whole = static_cast<std::int64_t>(scalar);
  json["query_pre_attn_scalar"] = static_cast<double>(whole) == scalar ? Json(whole) : Json(scalar);
  // Never null: transformers makes a mask of it though no layer may have a window.
  json["sliding_window"] = c.window_size.value_or(c.max_positions());
  write_layer_types(c, json);
}

NameMap gemma_names() {
  NameMap out = llama_names();
  const std::vector<NameRule> norms{
      {"model.layers.{}.post_attention_layernorm", {"layers.{}.attention_norm"}},
      {"model.layers.{}.pre_feedforward_layernorm", {"layers.{}.norm2"}},
      {"model.layers.{}.post_feedforward_layernorm", {"layers.{}.mlp_norm"}}};
  out.rules.insert(out.rules.begin(), norms.begin(), norms.end());
  zero_center_norms(out);
  return out;
}

}  // namespace stoa::model::huggingface
