#include "model/huggingface/llama_keys.h"

#include "model/huggingface/json_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {

Activation plain_activation(const std::string& name) {
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::kGeluTanh;
  if (name == "quick_gelu") return Activation::kQuickGelu;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "relu") return Activation::kRelu;
  if (name == "relu2") return Activation::kSquaredRelu;
  fail<ConfigError>(
      "config.json: activation_function '{}' is not known; known: gelu, gelu_new, quick_gelu, silu, relu, "
      "relu2",
      name);
}

Activation gated_activation(const std::string& name) {
  if (name == "silu" || name == "swish") return Activation::kSwiglu;
  if (name == "gelu") return Activation::kGeglu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::kGegluTanh;
  if (name == "relu") return Activation::kReglu;
  fail<ConfigError>(
      "config.json: hidden_act '{}' is not known for a gated layer; known: silu, gelu, "
      "gelu_pytorch_tanh, relu",
      name);
}

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
    case Activation::kGeglu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_new";
    case Activation::kGegluTanh:
      return "gelu_pytorch_tanh";
    case Activation::kQuickGelu:
      return "quick_gelu";
    case Activation::kSilu:
    case Activation::kSwiglu:
      return "silu";
    case Activation::kRelu:
    case Activation::kReglu:
      return "relu";
    case Activation::kSquaredRelu:
      return "relu2";
    case Activation::kClampedSwiglu:
      return "swiglu_oai";
  }
  fail<InternalError>("unknown activation");
}

void set_biases(ModelConfig& c, bool qkv, bool attention_output, bool mlp) {
  c.qkv_bias.reset();
  c.attention_output_bias.reset();
  c.mlp_bias.reset();
  c.bias = qkv && attention_output && mlp ? BiasKind::kAll : qkv && !mlp ? BiasKind::kQkv : BiasKind::kNone;
  if (c.has_qkv_bias() != qkv) c.qkv_bias = qkv;
  if (c.has_attention_output_bias() != attention_output) c.attention_output_bias = attention_output;
  if (c.has_mlp_bias() != mlp) c.mlp_bias = mlp;
}

void read_attention_bias(JsonKeys& keys, ModelConfig& c, bool fallback) {
  const bool attention = keys.boolean("attention_bias").value_or(fallback);
  set_biases(c, attention, attention, false);
}

void read_attention_and_mlp_bias(JsonKeys& keys, ModelConfig& c) {
  const bool attention = keys.boolean("attention_bias").value_or(false);
  set_biases(c, attention, attention, keys.boolean("mlp_bias").value_or(false));
}

void write_attention_and_mlp_bias(const ModelConfig& c, Json& json) {
  json["attention_bias"] = c.has_qkv_bias();
  json["mlp_bias"] = c.has_mlp_bias();
}

void read_llama_sizes(JsonKeys& keys, ModelConfig& c, const LlamaDefaults& defaults) {
  c.vocab_size = keys.integer("vocab_size", 1).value_or(defaults.vocabulary);
  c.hidden_size = keys.integer("hidden_size", 1).value_or(defaults.hidden);
  c.ffn_hidden_size = keys.integer("intermediate_size", 1).value_or(defaults.ffn);
  c.num_layers = keys.integer("num_hidden_layers", 1).value_or(defaults.layers);
  c.num_attention_heads = keys.integer("num_attention_heads", 1).value_or(defaults.heads);
  // Absent: the family's default; null: as many as heads.
  c.num_query_groups = keys.integer("num_key_value_heads", 1);
  if (!keys.contains("num_key_value_heads")) c.num_query_groups = defaults.groups;
  if (!c.num_query_groups) c.num_query_groups = c.num_attention_heads;
  c.kv_channels = keys.integer("head_dim", 1);
  if (!c.kv_channels) c.kv_channels = defaults.head_size;
  c.max_position_embeddings = keys.integer("max_position_embeddings", 1).value_or(defaults.positions);
  c.position_embedding_type = PositionEmbedding::kRope;
  c.normalization = Normalization::kRmsNorm;
  c.layernorm_epsilon = keys.number("rms_norm_eps").value_or(defaults.epsilon);
  c.bias = BiasKind::kNone;
  c.attention_dropout = keys.number("attention_dropout").value_or(0);
}

void read_llama_keys(JsonKeys& keys, ModelConfig& c, const LlamaDefaults& defaults) {
  read_llama_sizes(keys, c, defaults);
  c.activation = gated_activation(keys.text("hidden_act").value_or("silu"));
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  read_rope(keys, c, defaults.rope);
}

void write_llama_sizes(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["hidden_size"] = c.hidden_size;
  json["intermediate_size"] = c.ffn_size();
  json["num_hidden_layers"] = c.num_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["num_key_value_heads"] = c.query_groups();
  json["head_dim"] = c.head_size();
  json["max_position_embeddings"] = c.max_positions();
  json["rms_norm_eps"] = c.layernorm_epsilon;
  json["attention_dropout"] = c.attention_dropout;
}

void write_llama_keys(const ModelSpec& spec, Json& json) {
  write_llama_sizes(spec, json);
  json["hidden_act"] = activation_name(spec.config.activation);
  write_rope(spec.config, json);
}

bool heads_do_not_divide(const ModelConfig& c) { return c.hidden_size % c.num_attention_heads != 0; }

void zero_center_norms(NameMap& names) {
  for (NameRule& rule : names.rules)
    rule.zero_centered = rule.parts.front().find("norm") != std::string_view::npos;
}

NameMap llama_names() {
  return {.prefix = "model.",
          .rules = {{"model.embed_tokens", {"embedding.tokens"}},
                    {"model.norm", {"final_norm"}},
                    {"lm_head", {"head"}},
                    {"model.layers.{}.input_layernorm", {"layers.{}.norm1"}},
                    {"model.layers.{}.self_attn.q_proj", {"layers.{}.attention.q"}},
                    {"model.layers.{}.self_attn.k_proj", {"layers.{}.attention.k"}},
                    {"model.layers.{}.self_attn.v_proj", {"layers.{}.attention.v"}},
                    {"model.layers.{}.self_attn.q_norm", {"layers.{}.attention.q_norm"}},
                    {"model.layers.{}.self_attn.k_norm", {"layers.{}.attention.k_norm"}},
                    {"model.layers.{}.self_attn.o_proj", {"layers.{}.attention.out"}},
                    {"model.layers.{}.post_attention_layernorm", {"layers.{}.norm2"}},
                    {"model.layers.{}.mlp.gate_proj", {"layers.{}.mlp.gate"}},
                    {"model.layers.{}.mlp.up_proj", {"layers.{}.mlp.up"}},
                    {"model.layers.{}.mlp.down_proj", {"layers.{}.mlp.down"}}},
          .needless = [](std::string_view name, const ModelConfig&) {
            return name.ends_with("rotary_emb.inv_freq");
          }};
}

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
