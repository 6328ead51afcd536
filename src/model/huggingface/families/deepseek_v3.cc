// DeepSeek-V3 (2412.19437): latent attention; sigmoid scores, groups of experts, a bias of the choice, shared
// experts; the first layers are dense.
#include <charconv>

#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_latent(JsonKeys& keys, LatentConfig& l) {
  const auto size = [&](const char* key, std::int64_t fallback) {
    return keys.integer(key, 1).value_or(fallback);
  };
  l.multi_latent_attention = true;
  l.q_lora_rank = keys.integer("q_lora_rank", 1);
  if (!keys.contains("q_lora_rank")) l.q_lora_rank = 1536;
  l.kv_lora_rank = size("kv_lora_rank", 512);
  l.qk_head_dim = size("qk_nope_head_dim", 128);
  l.qk_pos_emb_head_dim = size("qk_rope_head_dim", 64);
  l.v_head_dim = size("v_head_dim", 128);
  keys.ignore("qk_head_dim");  // the sum of the two
  keys.only("rope_interleave", true);
}

void read_deepseek_v3(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(
      keys, c,
      {.vocabulary = 129280, .hidden = 7168, .layers = 61, .heads = 128, .ffn = 18432, .positions = 4096});
  keys.only("attention_bias", false);
  read_latent(keys, c.latent);
  // Every head has keys of its own; head_dim means the rotated part in some files.
  c.num_query_groups = c.num_attention_heads;
  c.kv_channels = c.latent.qk_head_dim + c.latent.qk_pos_emb_head_dim;
  const auto only = [&](const char* key, const char* supported) {
    const auto value = keys.text(key).value_or(supported);
    require<ConfigError>(value == supported, "config.json: {} '{}' is not supported here, only '{}'", key,
                         value, supported);
  };
  only("scoring_func", "sigmoid");
  only("topk_method", "noaux_tc");
  keys.only("moe_layer_freq", 1);
  MoeConfig& m = c.moe;
  m.num_moe_experts = keys.integer("n_routed_experts", 2).value_or(256);
  m.moe_router_topk = keys.integer("num_experts_per_tok", 1).value_or(8);
  m.moe_ffn_hidden_size = keys.integer("moe_intermediate_size", 1).value_or(2048);
  m.moe_shared_expert_intermediate_size =
      *m.moe_ffn_hidden_size * keys.integer("n_shared_experts", 1).value_or(1);
  m.moe_router_score_function = RouterScoreFunction::kSigmoid;
  m.moe_router_enable_expert_bias = true;
  m.moe_router_pre_softmax = !keys.boolean("norm_topk_prob").value_or(true);
  m.moe_router_topk_scaling_factor = keys.number("routed_scaling_factor").value_or(2.5);
  m.moe_router_num_groups = keys.integer("n_group", 1).value_or(8);
  m.moe_router_group_topk = keys.integer("topk_group", 1).value_or(4);
  const std::int64_t dense = keys.integer("first_k_dense_replace").value_or(3);
  for (std::int64_t l = 0; l < std::min(dense, c.num_layers); ++l) m.moe_dense_layers.push_back(l);
  // Of training, of deployment, and of layers that are not loaded.
  for (const char* key : {"aux_loss_alpha", "seq_aux", "ep_size", "num_nextn_predict_layers"})
    keys.ignore(key);
}

void write_deepseek_v3(const Gpt& gpt, Json& json) {
  const ModelConfig& c = gpt.config;
  const LatentConfig& l = c.latent;
  const MoeConfig& m = c.moe;
  write_llama_keys(gpt, json);
  json["head_dim"] = l.qk_pos_emb_head_dim;
  json["attention_bias"] = false;
  json["q_lora_rank"] = l.q_lora_rank ? Json(*l.q_lora_rank) : Json();
  json["kv_lora_rank"] = l.kv_lora_rank;
  json["qk_nope_head_dim"] = l.qk_head_dim;
  json["qk_rope_head_dim"] = l.qk_pos_emb_head_dim;
  json["v_head_dim"] = l.v_head_dim;
  json["rope_interleave"] = true;
  json["scoring_func"] = "sigmoid";
  json["topk_method"] = "noaux_tc";
  json["n_routed_experts"] = m.num_moe_experts.value_or(0);
  json["num_experts_per_tok"] = m.moe_router_topk;
  json["moe_intermediate_size"] = c.moe_ffn_size();
  json["n_shared_experts"] = m.moe_shared_expert_intermediate_size.value_or(0) / c.moe_ffn_size();
  json["norm_topk_prob"] = !m.moe_router_pre_softmax;
  json["routed_scaling_factor"] = m.moe_router_topk_scaling_factor.value_or(1);
  json["n_group"] = m.moe_router_num_groups.value_or(1);
  json["topk_group"] = m.moe_router_group_topk.value_or(1);
  std::int64_t dense = 0;
  while (dense < c.num_layers && !m.has_experts(dense)) ++dense;
  json["first_k_dense_replace"] = dense;
  json["num_nextn_predict_layers"] = 0;
}

// Rows [file, file + 2 n) hold pairs that rotate side by side; canonical ones, first members before second.
void add_pairs(std::vector<RowRun>& runs, std::int64_t file, std::int64_t row, std::int64_t size) {
  for (std::int64_t i = 0; i < size / 2; ++i) {
    runs.push_back({0, file + 2 * i, row + i, 1});
    runs.push_back({0, file + 2 * i + 1, row + size / 2 + i, 1});
  }
}

// Files: each head's own dimensions, then the rotated ones; canonical: the other way round.
std::vector<RowRun> query_heads(const ModelConfig& c, const std::vector<CanonicalTensor>&) {
  const std::int64_t own = c.latent.qk_head_dim, rotated = c.latent.qk_pos_emb_head_dim;
  std::vector<RowRun> out;
  for (std::int64_t h = 0, row = 0; h < c.num_attention_heads; ++h, row += own + rotated) {
    out.push_back({0, row, row + rotated, own});
    add_pairs(out, row + own, row, rotated);
  }
  return out;
}

// The latent, then the key that all heads share.
std::vector<RowRun> latent_and_key(const ModelConfig& c, const std::vector<CanonicalTensor>&) {
  std::vector<RowRun> out{{0, 0, 0, c.latent.kv_lora_rank}};
  add_pairs(out, c.latent.kv_lora_rank, c.latent.kv_lora_rank, c.latent.qk_pos_emb_head_dim);
  return out;
}

// Layers beyond the model's own predict several tokens ahead (section 2.2 of the report): not loaded.
bool is_further_layer(std::string_view name, const ModelConfig& c) {
  constexpr std::string_view kStem = "layers.";
  if (!name.starts_with(kStem)) return name.ends_with("rotary_emb.inv_freq");
  std::int64_t layer = 0;
  std::from_chars(name.data() + kStem.size(), name.data() + name.size(), layer);
  return layer >= c.num_layers || name.ends_with("rotary_emb.inv_freq");
}

NameMap deepseek_v3_names() {
  NameMap out = llama_names();
  out.needless = is_further_layer;
  const std::vector<NameRule> own{
      {"model.layers.{}.self_attn.q_proj", {"layers.{}.attention.q"}, query_heads},
      {"model.layers.{}.self_attn.q_a_proj", {"layers.{}.attention.q_a"}},
      {"model.layers.{}.self_attn.q_a_layernorm", {"layers.{}.attention.q_a_norm"}},
      {"model.layers.{}.self_attn.q_b_proj", {"layers.{}.attention.q_b"}, query_heads},
      {"model.layers.{}.self_attn.kv_a_proj_with_mqa", {"layers.{}.attention.kv_a"}, latent_and_key},
      {"model.layers.{}.self_attn.kv_a_layernorm", {"layers.{}.attention.kv_a_norm"}},
      {"model.layers.{}.self_attn.kv_b_proj", {"layers.{}.attention.kv_b"}},
      {"model.layers.{}.mlp.gate", {"layers.{}.moe.router"}},
      {.file = "model.layers.{}.mlp.gate.e_score_correction_bias",
       .parts = {"layers.{}.moe.router.expert_bias"},
       .suffix = false},
      {"model.layers.{}.mlp.experts.{}.gate_proj", {"layers.{}.moe.experts.{}.gate"}},
      {"model.layers.{}.mlp.experts.{}.up_proj", {"layers.{}.moe.experts.{}.up"}},
      {"model.layers.{}.mlp.experts.{}.down_proj", {"layers.{}.moe.experts.{}.down"}},
      {"model.layers.{}.mlp.shared_experts.gate_proj", {"layers.{}.moe.shared.gate"}},
      {"model.layers.{}.mlp.shared_experts.up_proj", {"layers.{}.moe.shared.up"}},
      {"model.layers.{}.mlp.shared_experts.down_proj", {"layers.{}.moe.shared.down"}}};
  out.rules.insert(out.rules.begin(), own.begin(), own.end());
  return out;
}

}  // namespace

const Family kDeepseekV3{"deepseek_v3", "DeepseekV3ForCausalLM", read_deepseek_v3, write_deepseek_v3,
                         deepseek_v3_names};

}  // namespace stoa::model::huggingface
