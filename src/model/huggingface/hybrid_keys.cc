#include "model/huggingface/hybrid_keys.h"

#include "model/huggingface/expert_keys.h"
#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_layer_kinds(JsonKeys& keys, ModelConfig& c) {
  LinearAttentionConfig& l = c.linear;
  const std::int64_t interval = keys.integer("full_attention_interval", 1).value_or(4);
  if (const auto kinds = keys.texts("layer_types")) {
    require<ConfigError>(static_cast<std::int64_t>(kinds->size()) == c.num_layers,
                         "config.json: layer_types has {} entries for {} layers", kinds->size(),
                         c.num_layers);
    for (std::size_t i = 0; i < kinds->size(); ++i) {
      const std::string& kind = (*kinds)[i];
      require<ConfigError>(
          kind == "linear_attention" || kind == "full_attention",
          "config.json: layer_types[{}] is '{}', expected linear_attention or full_attention", i, kind);
      if (kind == "linear_attention") l.linear_attention_layers.push_back(static_cast<std::int64_t>(i));
    }
  } else if (interval > 1) {
    l.linear_attention_freq = interval;
  }
}

std::vector<RowRun> by_attention_head(const ModelConfig& c, const std::vector<CanonicalTensor>& parts) {
  return in_heads(c.num_attention_heads, parts);
}

}  // namespace

void read_hybrid_keys(JsonKeys& keys, ModelConfig& c, const LlamaDefaults& defaults) {
  read_llama_keys(keys, c, defaults);
  c.qk_layernorm = true;
  c.attention_output_gate = true;
  keys.only("attn_output_gate", true);
  const std::string gate = keys.text("output_gate_type").value_or("swish");  // of linear attention
  require<ConfigError>(gate == "swish" || gate == "silu",
                       "config.json: output_gate_type '{}' is not supported, expected swish", gate);
  // How other programs hold the state; layers that predict further tokens are not read.
  for (const char* key : {"mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"})
    keys.ignore(key);
  keys.only("attention_bias", false);
  read_layer_kinds(keys, c);
  LinearAttentionConfig& l = c.linear;
  bool linear = false;
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer) linear = linear || l.is_linear(layer);
  require<ConfigError>(!linear || c.activation == Activation::kSwiglu,
                       "config.json: hidden_act other than 'silu' is not supported for layers with linear "
                       "attention, whose convolutions have it too");
  l.linear_conv_kernel_dim = keys.integer("linear_conv_kernel_dim", 1).value_or(4);
  l.linear_key_head_dim = keys.integer("linear_key_head_dim", 1).value_or(128);
  l.linear_value_head_dim = keys.integer("linear_value_head_dim", 1).value_or(128);
  l.linear_num_key_heads = keys.integer("linear_num_key_heads", 1).value_or(16);
  l.linear_num_value_heads = keys.integer("linear_num_value_heads", 1).value_or(32);
}

void write_hybrid_keys(const ModelSpec& spec, Json& json) {
  const LinearAttentionConfig& l = spec.config.linear;
  write_llama_keys(spec, json);
  json["partial_rotary_factor"] = spec.config.rotary_percentage;  // 1 is not the default
  json["rope_parameters"]["partial_rotary_factor"] = spec.config.rotary_percentage;
  json["attention_bias"] = false;
  Json kinds = Json::array();
  for (std::int64_t layer = 0; layer < spec.config.num_layers; ++layer)
    kinds.push_back(l.is_linear(layer) ? "linear_attention" : "full_attention");
  json["layer_types"] = kinds;
  json["linear_conv_kernel_dim"] = l.linear_conv_kernel_dim;
  json["linear_key_head_dim"] = l.linear_key_head_dim;
  json["linear_value_head_dim"] = l.linear_value_head_dim;
  json["linear_num_key_heads"] = l.linear_num_key_heads;
  json["linear_num_value_heads"] = l.linear_num_value_heads;
}

void read_hybrid_experts(JsonKeys& keys, ModelConfig& c, std::int64_t experts, std::int64_t chosen) {
  read_experts(keys, c, experts, chosen);
  c.moe.moe_ffn_hidden_size = keys.integer("moe_intermediate_size", 1).value_or(512);
  c.moe.moe_shared_expert_intermediate_size =
      keys.integer("shared_expert_intermediate_size", 1).value_or(512);
  c.moe.moe_shared_expert_gate = true;
}

void write_hybrid_experts(const ModelConfig& c, Json& json) {
  write_experts(c, json);
  json["num_experts"] = c.moe.num_moe_experts.value_or(0);
  json["moe_intermediate_size"] = c.moe_ffn_size();
  json["shared_expert_intermediate_size"] = c.moe.moe_shared_expert_intermediate_size.value_or(0);
}

NameMap hybrid_names(const std::vector<NameRule>& projections) {
  NameMap out = llama_names();
  const std::vector<NameRule> rules{
      {.file = "model.layers.{}.linear_attn.conv1d",
       .parts = {"layers.{}.delta.conv.q", "layers.{}.delta.conv.k", "layers.{}.delta.conv.v"},
       .depthwise = true},
      {.file = "model.layers.{}.linear_attn.A_log", .parts = {"layers.{}.delta.decay"}, .suffix = false},
      {.file = "model.layers.{}.linear_attn.dt_bias",
       .parts = {"layers.{}.delta.step_bias"},
       .suffix = false},
      {"model.layers.{}.linear_attn.norm", {"layers.{}.delta.norm"}},
      {"model.layers.{}.linear_attn.out_proj", {"layers.{}.delta.out"}},
      {"model.layers.{}.mlp.gate", {"layers.{}.moe.router"}},
      {"model.layers.{}.mlp.experts.{}.gate_proj", {"layers.{}.moe.experts.{}.gate"}},
      {"model.layers.{}.mlp.experts.{}.up_proj", {"layers.{}.moe.experts.{}.up"}},
      {"model.layers.{}.mlp.experts.{}.down_proj", {"layers.{}.moe.experts.{}.down"}},
      {"model.layers.{}.mlp.shared_expert.gate_proj", {"layers.{}.moe.shared.gate"}},
      {"model.layers.{}.mlp.shared_expert.up_proj", {"layers.{}.moe.shared.up"}},
      {"model.layers.{}.mlp.shared_expert.down_proj", {"layers.{}.moe.shared.down"}},
      {"model.layers.{}.mlp.shared_expert_gate", {"layers.{}.moe.shared_gate"}}};
  out.rules.insert(out.rules.end(), rules.begin(), rules.end());
  out.rules.insert(out.rules.end(), projections.begin(), projections.end());
  for (NameRule& rule : out.rules) {
    const std::string_view part = rule.parts.front();
    rule.zero_centered = part.find("norm") != part.npos && part.find("delta") == part.npos;
    if (part == "layers.{}.attention.q") {  // a head's queries, then its gate
      rule.parts.push_back("layers.{}.attention.gate");
      rule.arrange = by_attention_head;
    }
  }
  out.needless = [](std::string_view name, const ModelConfig&) {
    return name.starts_with("mtp.") || name.ends_with("rotary_emb.inv_freq");
  };
  return out;
}

}  // namespace stoa::model::huggingface
