// OLMoE (2409.02060): experts in every layer, q and k normalised over all heads together.
#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_olmoe(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c,
                  {.vocabulary = 50304,
                   .hidden = 2048,
                   .layers = 16,
                   .heads = 16,
                   .ffn = 2048,
                   .positions = 4096,
                   .epsilon = 1e-5});
  read_attention_bias(keys, c);
  require<ConfigError>(!keys.number("clip_qkv"), "config.json: clip_qkv is not supported, only null");
  c.qk_layernorm = c.qk_layernorm_all_heads = true;
  read_experts(keys, c, 64, 8);
  c.moe.moe_ffn_hidden_size = c.ffn_size();
  c.moe.moe_router_pre_softmax = !keys.boolean("norm_topk_prob").value_or(false);
}

void write_olmoe(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  write_experts(c, json);
  json.erase("num_local_experts");
  json.erase("head_dim");
  json["num_experts"] = c.moe.num_moe_experts.value_or(0);
  json["intermediate_size"] = c.moe_ffn_size();
  json["attention_bias"] = c.has_qkv_bias();
  json["norm_topk_prob"] = !c.moe.moe_router_pre_softmax;
  json["clip_qkv"] = Json();
}

NameMap olmoe_names() {
  NameMap out = llama_names();
  add_rules(out, expert_names());
  return out;
}

}  // namespace

const Family kOlmoe{"olmoe", "OlmoeForCausalLM", read_olmoe, write_olmoe, olmoe_names};

}  // namespace stoa::model::huggingface
