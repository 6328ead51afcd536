#include "model/huggingface/expert_keys.h"

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

Json dense_layers(const ModelConfig& c) {
  Json out = Json::array();
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if (!c.moe.has_experts(l)) out.push_back(l);
  return out;
}

}  // namespace stoa::model::huggingface
