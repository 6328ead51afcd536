// Granite 3 (IBM 2024) and its mixtures of experts: llama with multipliers of embeddings, branches, scores
// and logits.
#include <cmath>

#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_granite_keys(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {});
  c.embedding_multiplier = keys.number("embedding_multiplier").value_or(1);
  c.residual_multiplier = keys.number("residual_multiplier").value_or(1);
  c.softmax_scale = keys.number("attention_multiplier").value_or(1);
  const double divisor = keys.number("logits_scaling").value_or(1);
  require<ConfigError>(divisor > 0, "config.json: logits_scaling is {}, expected above 0", divisor);
  c.logit_scale = 1 / divisor;
}

void write_granite_keys(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json["embedding_multiplier"] = c.embedding_multiplier;
  json["residual_multiplier"] = c.residual_multiplier;
  json["attention_multiplier"] = c.softmax_scale.value_or(1 / std::sqrt(static_cast<double>(c.head_size())));
  json["logits_scaling"] = 1 / c.logit_scale;
}

void read_granite(JsonKeys& keys, ModelConfig& c) {
  read_granite_keys(keys, c);
  read_attention_and_mlp_bias(keys, c);
}

void write_granite(const ModelSpec& spec, Json& json) {
  write_granite_keys(spec, json);
  write_attention_and_mlp_bias(spec.config, json);
}

void read_granitemoe(JsonKeys& keys, ModelConfig& c) {
  read_granite_keys(keys, c);
  read_attention_bias(keys, c);
  read_experts(keys, c, 8, 2);
}

void write_granitemoe(const ModelSpec& spec, Json& json) {
  write_granite_keys(spec, json);
  json["intermediate_size"] = spec.config.moe_ffn_size();
  json["attention_bias"] = spec.config.has_qkv_bias();
  write_experts(spec.config, json);
}

// One tensor for the matrices of all experts.
NameMap granitemoe_names() {
  NameMap out = llama_names();
  out.rules.push_back({"model.layers.{}.block_sparse_moe.router.layer", {"layers.{}.moe.router"}});
  out.rules.push_back({.file = "model.layers.{}.block_sparse_moe.input_linear",
                       .parts = {"layers.{}.moe.experts.{}.gate", "layers.{}.moe.experts.{}.up"},
                       .packed = true,
                       .module = "model.layers.{}.block_sparse_moe.experts.gate_up_proj"});
  out.rules.push_back({.file = "model.layers.{}.block_sparse_moe.output_linear",
                       .parts = {"layers.{}.moe.experts.{}.down"},
                       .packed = true,
                       .module = "model.layers.{}.block_sparse_moe.experts.down_proj"});
  return out;
}

}  // namespace

const Family kGranite{"granite", "GraniteForCausalLM", read_granite, write_granite, llama_names};
const Family kGraniteMoe{"granitemoe", "GraniteMoeForCausalLM", read_granitemoe, write_granitemoe,
                         granitemoe_names};

}  // namespace stoa::model::huggingface
