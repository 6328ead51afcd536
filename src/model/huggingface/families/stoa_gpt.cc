// The keys of Stoa's own configuration, and canonical names: for combinations of options that no family has.
#include "base/nearest.h"
#include "model/huggingface/encoder_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

template <class E>
E from_name(const std::string& text, const char* key) {
  std::vector<std::string> known;
  for (const auto& entry : enum_names(E())) {
    if (entry.name == text) return entry.value;
    known.emplace_back(entry.name);
  }
  fail<ConfigError>("config.json: {} '{}' is not known{}", key, text, did_you_mean(text, known));
}

template <class E>
void read_enum(JsonKeys& keys, const char* key, E& field) {
  if (const auto text = keys.text(key)) field = from_name<E>(*text, key);
}

void read_encoder(JsonKeys& keys, ModelConfig& c) {
  BertConfig& b = c.bert;
  read_encoder_head(keys, c, "StoaBert", true);
  b.num_token_types = keys.integer("num_token_types", 0).value_or(b.num_token_types);
  b.first_position = keys.integer("bert_first_position", 0).value_or(0);
  b.pre_norm = keys.boolean("pre_norm").value_or(false);
  b.embedding_norm = keys.boolean("embedding_norm").value_or(true);
  b.relative_attention_num_buckets = keys.integer("relative_attention_num_buckets", 4);
  b.classifier_bias = keys.boolean("classifier_bias").value_or(true);
  if (const auto name = keys.text("head_activation"))
    b.head_activation = from_name<Activation>(*name, "head_activation");
  read_enum(keys, "pooler_activation", b.pooler_activation);
}

void write_encoder(const ModelConfig& c, Json& json) {
  const BertConfig& b = c.bert;
  write_encoder_head(c, json, "StoaBert");
  json["num_token_types"] = b.num_token_types;
  json["bert_first_position"] = b.first_position;
  json["pre_norm"] = b.pre_norm;
  json["embedding_norm"] = b.embedding_norm;
  if (b.relative_attention_num_buckets)
    json["relative_attention_num_buckets"] = *b.relative_attention_num_buckets;
  json["classifier_bias"] = b.classifier_bias;
  json["head_activation"] = config::enum_name(c.masked_head_activation());
  json["pooler_activation"] = config::enum_name(b.pooler_activation);
}

void read_stoa_gpt(JsonKeys& keys, ModelConfig& c) {
  const auto need = [&](const char* key) {
    const auto value = keys.integer(key, 1);
    require<ConfigError>(value.has_value(), "config.json: {} is missing", key);
    return *value;
  };
  c.vocab_size = need("vocab_size");
  c.num_layers = need("num_layers");
  c.hidden_size = need("hidden_size");
  c.ffn_hidden_size = need("ffn_hidden_size");
  c.num_attention_heads = need("num_attention_heads");
  c.num_query_groups = need("num_query_groups");
  c.kv_channels = need("kv_channels");
  c.max_position_embeddings = need("max_position_embeddings");
  read_enum(keys, "position_embedding_type", c.position_embedding_type);
  read_enum(keys, "normalization", c.normalization);
  read_enum(keys, "norm_placement", c.norm_placement);
  c.use_parallel_residual = keys.boolean("use_parallel_residual").value_or(false);
  read_enum(keys, "activation", c.activation);
  read_enum(keys, "bias", c.bias);
  c.qkv_bias = keys.boolean("qkv_bias");
  c.attention_output_bias = keys.boolean("attention_output_bias");
  c.mlp_bias = keys.boolean("mlp_bias");
  c.rotary_percentage = keys.number("rotary_percentage").value_or(1);
  c.rotary_base = keys.number("rotary_base").value_or(10000);
  c.layernorm_epsilon = keys.number("layernorm_epsilon").value_or(1e-5);
  c.norm_weight = keys.boolean("norm_weight").value_or(true);
  c.norm_bias = keys.boolean("norm_bias").value_or(true);
  c.num_ln_in_parallel_attn = keys.integer("num_ln_in_parallel_attn", 1, 2).value_or(2);
  c.lm_head_bias = keys.boolean("lm_head_bias").value_or(false);
  c.first_position = keys.integer("first_position").value_or(0);
  c.no_rope_layers = keys.integers("no_rope_layers");
  c.softmax_scale = keys.number("softmax_scale");
  c.embedding_multiplier = keys.number("embedding_multiplier").value_or(1);
  c.residual_multiplier = keys.number("residual_multiplier").value_or(1);
  c.logit_scale = keys.number("logit_scale").value_or(1);
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.qk_layernorm = keys.boolean("qk_layernorm").value_or(false);
  c.qk_layernorm_all_heads = keys.boolean("qk_layernorm_all_heads").value_or(false);
  c.qk_layernorm_after_rope = keys.boolean("qk_layernorm_after_rope").value_or(false);
  c.window_size = keys.integer("window_size", 1);
  c.window_first_layer = keys.integer("window_first_layer");
  c.window_attn_skip_freq = keys.integer("window_attn_skip_freq", 1);
  c.window_layers = keys.integers("window_layers");
  c.rope_local_base_freq = keys.number("rope_local_base_freq");
  c.query_pre_attn_scalar = keys.number("query_pre_attn_scalar");
  c.attn_logit_softcapping = keys.number("attn_logit_softcapping");
  c.attention_sinks = keys.boolean("attention_sinks").value_or(false);
  c.activation_alpha = keys.number("activation_alpha").value_or(c.activation_alpha);
  c.activation_limit = keys.number("activation_limit").value_or(c.activation_limit);
  c.final_logit_softcapping = keys.number("final_logit_softcapping");
  c.apply_embedding_scaling = keys.boolean("apply_embedding_scaling").value_or(false);
  c.embedding_layernorm = keys.boolean("embedding_layernorm").value_or(false);
  c.hidden_dropout = keys.number("hidden_dropout").value_or(0);
  c.attention_dropout = keys.number("attention_dropout").value_or(0);
  c.embedding_dropout = keys.number("embedding_dropout").value_or(0);
  read_enum(keys, "kind", c.kind);
  if (c.kind == ModelKind::kBert) read_encoder(keys, c);
  if (c.kind == ModelKind::kT5) {
    T5Config& t = c.t5;
    t.encoder_layers = need("encoder_layers");
    t.relative_attention_num_buckets = need("relative_attention_num_buckets");
    t.relative_attention_max_distance = need("relative_attention_max_distance");
    t.relative_bias_per_layer = keys.boolean("relative_bias_per_layer").value_or(false);
    t.scale_attention = keys.boolean("scale_attention").value_or(false);
    t.scale_decoder_outputs = keys.boolean("scale_decoder_outputs").value_or(false);
  }
  if (const auto rank = keys.integer("kv_lora_rank", 1)) {
    LatentConfig& l = c.latent;
    l.multi_latent_attention = true;
    l.kv_lora_rank = *rank;
    l.q_lora_rank = keys.integer("q_lora_rank", 1);
    l.qk_head_dim = need("qk_head_dim");
    l.qk_pos_emb_head_dim = need("qk_pos_emb_head_dim");
    l.v_head_dim = need("v_head_dim");
  }
  c.attention_output_gate = keys.boolean("attention_output_gate").value_or(false);
  if (auto layers = keys.integers("linear_attention_layers"); !layers.empty()) {
    LinearAttentionConfig& l = c.linear;
    l.linear_attention_layers = std::move(layers);
    l.linear_num_key_heads = need("linear_num_key_heads");
    l.linear_num_value_heads = need("linear_num_value_heads");
    l.linear_key_head_dim = need("linear_key_head_dim");
    l.linear_value_head_dim = need("linear_value_head_dim");
    l.linear_conv_kernel_dim = need("linear_conv_kernel_dim");
  }
  if (const auto experts = keys.integer("num_moe_experts", 2)) {
    MoeConfig& m = c.moe;
    m.num_moe_experts = experts;
    m.moe_router_topk = keys.integer("moe_router_topk", 1).value_or(2);
    m.moe_ffn_hidden_size = keys.integer("moe_ffn_hidden_size", 1);
    m.moe_shared_expert_intermediate_size = keys.integer("moe_shared_expert_intermediate_size", 1);
    m.moe_shared_expert_gate = keys.boolean("moe_shared_expert_gate").value_or(false);
    m.moe_dense_layers = keys.integers("moe_dense_layers");
    read_enum(keys, "moe_router_score_function", m.moe_router_score_function);
    m.moe_router_pre_softmax = keys.boolean("moe_router_pre_softmax").value_or(false);
    m.moe_router_topk_scaling_factor = keys.number("moe_router_topk_scaling_factor");
    m.moe_router_num_groups = keys.integer("moe_router_num_groups", 1);
    m.moe_router_group_topk = keys.integer("moe_router_group_topk", 1);
    m.moe_router_enable_expert_bias = keys.boolean("moe_router_enable_expert_bias").value_or(false);
  }
  const auto* scaling = keys.object("rope_scaling");
  if (!scaling) return;
  JsonKeys rope(*scaling, "rope_scaling.");
  RopeScalingConfig& s = c.rope_scaling;
  read_enum(rope, "type", s.type);
  s.factor = rope.number("factor");
  s.original_max_position_embeddings = rope.integer("original_max_position_embeddings", 1);
  s.low_freq_factor = rope.number("low_freq_factor").value_or(s.low_freq_factor);
  s.high_freq_factor = rope.number("high_freq_factor").value_or(s.high_freq_factor);
  s.beta_fast = rope.number("beta_fast").value_or(s.beta_fast);
  s.beta_slow = rope.number("beta_slow").value_or(s.beta_slow);
  s.mscale = rope.number("mscale");
  s.mscale_all_dim = rope.number("mscale_all_dim");
  s.attention_factor = rope.number("attention_factor");
  s.truncate = rope.boolean("truncate").value_or(s.truncate);
  s.short_factor = rope.numbers("short_factor").value_or(s.short_factor);
  s.long_factor = rope.numbers("long_factor").value_or(s.long_factor);
  rope.finish("rope scaling");
}

void write_stoa_gpt(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["num_layers"] = c.num_layers;
  json["hidden_size"] = c.hidden_size;
  json["ffn_hidden_size"] = c.ffn_size();
  json["num_attention_heads"] = c.num_attention_heads;
  json["num_query_groups"] = c.query_groups();
  json["kv_channels"] = c.head_size();
  json["max_position_embeddings"] = c.max_positions();
  json["position_embedding_type"] = config::enum_name(c.position_embedding_type);
  json["normalization"] = config::enum_name(c.normalization);
  json["norm_placement"] = config::enum_name(c.norm_placement);
  json["use_parallel_residual"] = c.use_parallel_residual;
  json["activation"] = config::enum_name(c.activation);
  json["bias"] = config::enum_name(c.bias);
  json["rotary_percentage"] = c.rotary_percentage;
  json["rotary_base"] = c.rotary_base;
  json["layernorm_epsilon"] = c.layernorm_epsilon;
  json["tie_word_embeddings"] = c.share_embeddings_and_output_weights;
  json["qk_layernorm"] = c.qk_layernorm;
  json["qk_layernorm_all_heads"] = c.qk_layernorm_all_heads;
  json["qk_layernorm_after_rope"] = c.qk_layernorm_after_rope;
  json["norm_weight"] = c.norm_weight;
  json["norm_bias"] = c.norm_bias;
  json["num_ln_in_parallel_attn"] = c.num_ln_in_parallel_attn;
  json["lm_head_bias"] = c.lm_head_bias;
  json["first_position"] = c.first_position;
  if (!c.no_rope_layers.empty()) json["no_rope_layers"] = c.no_rope_layers;
  json["embedding_multiplier"] = c.embedding_multiplier;
  json["residual_multiplier"] = c.residual_multiplier;
  json["logit_scale"] = c.logit_scale;
  if (c.window_size) json["window_size"] = *c.window_size;
  const auto set = [&](const char* key, const auto& optional) {
    if (optional) json[key] = *optional;
  };
  set("window_first_layer", c.window_first_layer);
  set("window_attn_skip_freq", c.window_attn_skip_freq);
  if (!c.window_layers.empty()) json["window_layers"] = c.window_layers;
  set("qkv_bias", c.qkv_bias);
  set("attention_output_bias", c.attention_output_bias);
  set("mlp_bias", c.mlp_bias);
  set("rope_local_base_freq", c.rope_local_base_freq);
  set("query_pre_attn_scalar", c.query_pre_attn_scalar);
  set("softmax_scale", c.softmax_scale);
  set("attn_logit_softcapping", c.attn_logit_softcapping);
  if (c.attention_sinks) json["attention_sinks"] = true;
  if (c.activation == Activation::kClampedSwiglu) {
    json["activation_alpha"] = c.activation_alpha;
    json["activation_limit"] = c.activation_limit;
  }
  set("final_logit_softcapping", c.final_logit_softcapping);
  json["apply_embedding_scaling"] = c.apply_embedding_scaling;
  json["embedding_layernorm"] = c.embedding_layernorm;
  json["hidden_dropout"] = c.hidden_dropout;
  json["attention_dropout"] = c.attention_dropout;
  json["embedding_dropout"] = c.embedding_dropout;
  if (c.kind == ModelKind::kBert) {
    json["kind"] = config::enum_name(c.kind);
    write_encoder(c, json);
  }
  if (c.kind == ModelKind::kT5) {
    json["kind"] = config::enum_name(c.kind);
    json["is_encoder_decoder"] = true;
    json["encoder_layers"] = c.encoder_layers();
    json["relative_attention_num_buckets"] = c.t5.relative_attention_num_buckets;
    json["relative_attention_max_distance"] = c.t5.relative_attention_max_distance;
    json["relative_bias_per_layer"] = c.t5.relative_bias_per_layer;
    json["scale_attention"] = c.t5.scale_attention;
    json["scale_decoder_outputs"] = c.t5.scale_decoder_outputs;
  }
  if (const LatentConfig& l = c.latent; l.multi_latent_attention) {
    json["kv_lora_rank"] = l.kv_lora_rank;
    set("q_lora_rank", l.q_lora_rank);
    json["qk_head_dim"] = l.qk_head_dim;
    json["qk_pos_emb_head_dim"] = l.qk_pos_emb_head_dim;
    json["v_head_dim"] = l.v_head_dim;
  }
  if (c.attention_output_gate) json["attention_output_gate"] = true;
  if (const LinearAttentionConfig& l = c.linear; l.any()) {
    std::vector<std::int64_t> layers;
    for (std::int64_t i = 0; i < c.num_layers; ++i)
      if (l.is_linear(i)) layers.push_back(i);
    json["linear_attention_layers"] = layers;
    json["linear_num_key_heads"] = l.linear_num_key_heads;
    json["linear_num_value_heads"] = l.linear_num_value_heads;
    json["linear_key_head_dim"] = l.linear_key_head_dim;
    json["linear_value_head_dim"] = l.linear_value_head_dim;
    json["linear_conv_kernel_dim"] = l.linear_conv_kernel_dim;
  }
  if (const MoeConfig& m = c.moe; m.num_moe_experts) {
    json["num_moe_experts"] = *m.num_moe_experts;
    json["moe_router_topk"] = m.moe_router_topk;
    json["moe_ffn_hidden_size"] = c.moe_ffn_size();
    if (m.moe_shared_expert_intermediate_size)
      json["moe_shared_expert_intermediate_size"] = *m.moe_shared_expert_intermediate_size;
    json["moe_shared_expert_gate"] = m.moe_shared_expert_gate;
    std::vector<std::int64_t> dense;
    for (std::int64_t l = 0; l < c.num_layers; ++l)
      if (!m.has_experts(l)) dense.push_back(l);
    json["moe_dense_layers"] = dense;
    json["moe_router_score_function"] = config::enum_name(m.moe_router_score_function);
    json["moe_router_pre_softmax"] = m.moe_router_pre_softmax;
    if (m.moe_router_topk_scaling_factor)
      json["moe_router_topk_scaling_factor"] = *m.moe_router_topk_scaling_factor;
    if (m.moe_router_num_groups) json["moe_router_num_groups"] = *m.moe_router_num_groups;
    if (m.moe_router_group_topk) json["moe_router_group_topk"] = *m.moe_router_group_topk;
    if (m.moe_router_enable_expert_bias) json["moe_router_enable_expert_bias"] = true;
  }
  const RopeScalingConfig& s = c.rope_scaling;
  if (s.type == RopeScaling::kDefault) return;
  Json rope;
  rope["type"] = config::enum_name(s.type);
  if (s.factor) rope["factor"] = *s.factor;
  if (s.original_max_position_embeddings)
    rope["original_max_position_embeddings"] = *s.original_max_position_embeddings;
  rope["low_freq_factor"] = s.low_freq_factor;
  rope["high_freq_factor"] = s.high_freq_factor;
  rope["beta_fast"] = s.beta_fast;
  rope["beta_slow"] = s.beta_slow;
  if (s.mscale) rope["mscale"] = *s.mscale;
  if (s.mscale_all_dim) rope["mscale_all_dim"] = *s.mscale_all_dim;
  if (s.attention_factor) rope["attention_factor"] = *s.attention_factor;
  rope["truncate"] = s.truncate;
  if (!s.short_factor.empty()) rope["short_factor"] = s.short_factor;
  if (!s.long_factor.empty()) rope["long_factor"] = s.long_factor;
  json["rope_scaling"] = rope;
}

// No rules: canonical names.
NameMap stoa_gpt_names() { return {.prefix = "", .rules = {}}; }

}  // namespace

const Family kStoaGpt{"stoa_gpt", "StoaGpt", read_stoa_gpt, write_stoa_gpt, stoa_gpt_names};

}  // namespace stoa::model::huggingface
