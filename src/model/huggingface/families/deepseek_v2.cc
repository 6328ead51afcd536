// DeepSeek-V2 (2405.04434): latent attention; softmax router scores used as weights without renormalisation,
// shared experts.
#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/latent_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_deepseek_v2(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {.vocabulary = 102400});
  keys.only("mlp_bias", false);
  read_latent(keys, c);
  const std::string method = keys.text("topk_method").value_or("greedy"),
                    score = keys.text("scoring_func").value_or("softmax");
  require<ConfigError>(score == "softmax",
                       "config.json: scoring_func '{}' is not supported here, only softmax", score);
  const auto groups = keys.integer("n_group", 1), chosen = keys.integer("topk_group", 1);
  require<ConfigError>(method == "greedy" || chosen.value_or(1) == groups.value_or(1),
                       "config.json: topk_method '{}' is not supported with {} of {} groups, only greedy",
                       method, chosen.value_or(1), groups.value_or(1));
  const std::int64_t every = keys.integer("moe_layer_freq", 1).value_or(1);
  require<ConfigError>(every == 1, "config.json: moe_layer_freq {} is not supported here, only 1", every);
  MoeConfig& m = c.moe;
  m.num_moe_experts = keys.integer("n_routed_experts", 2).value_or(64);
  m.moe_router_topk = keys.integer("num_experts_per_tok", 1).value_or(6);
  m.moe_ffn_hidden_size = keys.integer("moe_intermediate_size", 1).value_or(1407);
  m.moe_shared_expert_intermediate_size =
      *m.moe_ffn_hidden_size * keys.integer("n_shared_experts", 1).value_or(2);
  m.moe_router_pre_softmax = true;  // transformers passes norm_topk_prob over
  keys.ignore("norm_topk_prob");
  m.moe_router_topk_scaling_factor = keys.number("routed_scaling_factor").value_or(1);
  const std::int64_t dense = keys.integer("first_k_dense_replace").value_or(0);
  for (std::int64_t l = 0; l < std::min(dense, c.num_layers); ++l) m.moe_dense_layers.push_back(l);
  for (const char* key : {"aux_loss_alpha", "seq_aux", "ep_size", "output_router_logits"}) keys.ignore(key);
}

void write_deepseek_v2(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  const MoeConfig& m = c.moe;
  write_llama_keys(spec, json);
  write_latent(c, json);
  write_grouped_experts(c, json);
  json["scoring_func"] = "softmax";
  json["topk_method"] = "greedy";
  json["norm_topk_prob"] = false;
  json["n_group"] = m.moe_router_num_groups.value_or(1);
  json["mlp_bias"] = false;
}

NameMap deepseek_v2_names() {
  NameMap out = llama_names();
  add_rules(out, expert_names());
  add_rules(out, {{"model.layers.{}.mlp.shared_experts.gate_proj", {"layers.{}.moe.shared.gate"}},
                  {"model.layers.{}.mlp.shared_experts.up_proj", {"layers.{}.moe.shared.up"}},
                  {"model.layers.{}.mlp.shared_experts.down_proj", {"layers.{}.moe.shared.down"}}});
  add_rules(out, latent_names(true));
  return out;
}

}  // namespace

const Family kDeepseekV2{"deepseek_v2",      "DeepseekV2ForCausalLM", read_deepseek_v2,
                         write_deepseek_v2,  deepseek_v2_names,       nullptr,
                         heads_do_not_divide};

}  // namespace stoa::model::huggingface
