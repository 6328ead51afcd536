#include "model/huggingface/expert_keys.h"

#include <algorithm>
#include <charconv>

#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {

void read_experts(JsonKeys& keys, ModelConfig& c, std::int64_t default_experts, std::int64_t default_chosen) {
  MoeConfig& m = c.moe;
  const auto local = keys.integer("num_local_experts", 2), plain = keys.integer("num_experts", 2);
  m.num_moe_experts = local ? local : plain.value_or(default_experts);
  m.moe_router_topk = keys.integer("num_experts_per_tok", 1).value_or(default_chosen);
  m.moe_aux_loss_coeff = keys.number("router_aux_loss_coef").value_or(0.001);
  if (!keys.boolean("output_router_logits").value_or(false))
    m.moe_aux_loss_coeff = 0;  // as transformers trains
}

void write_experts(const ModelConfig& c, Json& json) {
  const MoeConfig& m = c.moe;
  json["num_local_experts"] = m.num_moe_experts.value_or(0);
  json["num_experts_per_tok"] = m.moe_router_topk;
  json["output_router_logits"] = m.moe_aux_loss_coeff > 0;
  json["router_aux_loss_coef"] = m.moe_aux_loss_coeff;
}

void read_grouped_experts(JsonKeys& keys, ModelConfig& c, const GroupedExpertDefaults& d) {
  const auto only = [&](const char* key, const char* supported) {
    const auto value = keys.text(key).value_or(supported);
    require<ConfigError>(value == supported, "config.json: {} '{}' is not supported here, only '{}'", key,
                         value, supported);
  };
  only("scoring_func", "sigmoid");
  only("topk_method", "noaux_tc");
  const std::int64_t every = keys.integer("moe_layer_freq", 1).value_or(1);
  require<ConfigError>(every == 1, "config.json: moe_layer_freq {} is not supported here, only 1", every);
  MoeConfig& m = c.moe;
  const std::int64_t dense = std::min(keys.integer("first_k_dense_replace").value_or(d.dense), c.num_layers);
  const std::int64_t ffn = keys.integer("moe_intermediate_size", 1).value_or(d.ffn),
                     shared = keys.integer("n_shared_experts").value_or(d.shared);
  m.num_moe_experts = keys.integer("n_routed_experts", 2).value_or(d.experts);
  m.moe_router_topk = keys.integer("num_experts_per_tok", 1).value_or(d.chosen);
  m.moe_ffn_hidden_size = ffn;
  if (shared > 0) m.moe_shared_expert_intermediate_size = ffn * shared;
  m.moe_router_score_function = RouterScoreFunction::kSigmoid;
  m.moe_router_enable_expert_bias = true;
  m.moe_router_pre_softmax = !keys.boolean("norm_topk_prob").value_or(d.normalized);
  m.moe_router_topk_scaling_factor = keys.number("routed_scaling_factor").value_or(d.scale);
  m.moe_router_num_groups = keys.integer("n_group", 1).value_or(d.groups);
  m.moe_router_group_topk = keys.integer("topk_group", 1).value_or(d.chosen_groups);
  for (std::int64_t l = 0; l < dense; ++l) m.moe_dense_layers.push_back(l);
  // Keys for training, deployment, and layers that are not loaded.
  for (const char* key : {"aux_loss_alpha", "seq_aux", "ep_size", "num_nextn_predict_layers",
                          "num_mtp_layers", "output_router_logits", "router_aux_loss_coef"})
    keys.ignore(key);
}

void write_grouped_experts(const ModelConfig& c, Json& json) {
  const MoeConfig& m = c.moe;
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

std::vector<NameRule> expert_names() {
  return {{"model.layers.{}.mlp.gate", {"layers.{}.moe.router"}},
          {"model.layers.{}.mlp.experts.{}.gate_proj", {"layers.{}.moe.experts.{}.gate"}},
          {"model.layers.{}.mlp.experts.{}.up_proj", {"layers.{}.moe.experts.{}.up"}},
          {"model.layers.{}.mlp.experts.{}.down_proj", {"layers.{}.moe.experts.{}.down"}}};
}

std::vector<NameRule> grouped_expert_names() {
  std::vector<NameRule> out = expert_names();
  const std::vector<NameRule> more{
      {.file = "model.layers.{}.mlp.gate.e_score_correction_bias",
       .parts = {"layers.{}.moe.router.expert_bias"},
       .suffix = false},
      {"model.layers.{}.mlp.shared_experts.gate_proj", {"layers.{}.moe.shared.gate"}},
      {"model.layers.{}.mlp.shared_experts.up_proj", {"layers.{}.moe.shared.up"}},
      {"model.layers.{}.mlp.shared_experts.down_proj", {"layers.{}.moe.shared.down"}}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

std::vector<NameRule> block_sparse_names() {
  return {{"model.layers.{}.block_sparse_moe.gate", {"layers.{}.moe.router"}},
          {"model.layers.{}.block_sparse_moe.experts.{}.w1", {"layers.{}.moe.experts.{}.gate"}},
          {"model.layers.{}.block_sparse_moe.experts.{}.w3", {"layers.{}.moe.experts.{}.up"}},
          {"model.layers.{}.block_sparse_moe.experts.{}.w2", {"layers.{}.moe.experts.{}.down"}}};
}

bool is_further_layer(std::string_view name, const ModelConfig& c) {
  constexpr std::string_view kStem = "layers.";
  if (!name.starts_with(kStem)) return name.ends_with("rotary_emb.inv_freq");
  std::int64_t layer = 0;
  std::from_chars(name.data() + kStem.size(), name.data() + name.size(), layer);
  return layer >= c.num_layers || name.ends_with("rotary_emb.inv_freq");
}

Json dense_layers(const ModelConfig& c) {
  Json out = Json::array();
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if (!c.moe.has_experts(l)) out.push_back(l);
  return out;
}

}  // namespace stoa::model::huggingface
