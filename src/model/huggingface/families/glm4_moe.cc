// GLM-4.5 (2508.06471): DeepSeek-V3's experts with grouped-query attention, where half of each head rotates.
#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_glm4_moe(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c,
                  {.vocabulary = 151552,
                   .layers = 46,
                   .heads = 96,
                   .ffn = 10944,
                   .groups = 8,
                   .positions = 131072,
                   .epsilon = 1e-5,
                   .rope = {.share = 0.5}});
  set_biases(c, keys.boolean("attention_bias").value_or(false), false, false);
  c.qk_layernorm = keys.boolean("use_qk_norm").value_or(false);
  read_grouped_experts(keys, c, {128, 8, 1408, 1, 1, 1, 1, true, 1});
}

void write_glm4_moe(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json["attention_bias"] = c.has_qkv_bias();
  json["use_qk_norm"] = c.qk_layernorm;
  json["partial_rotary_factor"] = c.rotary_percentage;
  json["rope_parameters"]["partial_rotary_factor"] = c.rotary_percentage;
  write_grouped_experts(c, json);
}

NameMap glm4_moe_names() {
  NameMap out = llama_names();
  out.needless = is_further_layer;
  add_rules(out, grouped_expert_names());
  return out;
}

}  // namespace

const Family kGlm4Moe{"glm4_moe", "Glm4MoeForCausalLM", read_glm4_moe, write_glm4_moe, glm4_moe_names};

}  // namespace stoa::model::huggingface
