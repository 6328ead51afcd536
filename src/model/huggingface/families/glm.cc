// GLM 4 (2406.12793) in the form of transformers: llama where half of each head rotates, in interleaved
// pairs; with model_type glm4 (GLM-4-0414) norms after the branches too.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

constexpr double kGlmEpsilon = 1.5625e-7;

void read_glm(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c,
                  {.vocabulary = 151552,
                   .layers = 40,
                   .ffn = 13696,
                   .groups = 2,
                   .head_size = 128,
                   .positions = 131072,
                   .epsilon = kGlmEpsilon,
                   .rope = {.share = 0.5}});
  set_biases(c, keys.boolean("attention_bias").value_or(true), false, false);
}

void read_glm4(JsonKeys& keys, ModelConfig& c) {
  read_glm(keys, c);
  c.norm_placement = NormPlacement::kBoth;
}

void write_glm(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json["attention_bias"] = c.has_qkv_bias();
  json["partial_rotary_factor"] = c.rotary_percentage;
  json["rope_parameters"]["partial_rotary_factor"] = c.rotary_percentage;
}

NameMap glm_names() {
  NameMap out = llama_names();
  add_rules(out, {{"model.layers.{}.self_attn.q_proj", {"layers.{}.attention.q"}, paired_heads},
                  {"model.layers.{}.self_attn.k_proj", {"layers.{}.attention.k"}, paired_heads},
                  {"model.layers.{}.mlp.gate_up_proj", {"layers.{}.mlp.gate", "layers.{}.mlp.up"}}});
  return out;
}

NameMap glm4_names() {
  NameMap out = glm_names();
  add_rules(out, {{"model.layers.{}.post_self_attn_layernorm", {"layers.{}.attention_norm"}},
                  {"model.layers.{}.post_mlp_layernorm", {"layers.{}.mlp_norm"}}});
  return out;
}

}  // namespace

const Family kGlm{"glm", "GlmForCausalLM", read_glm, write_glm, glm_names, nullptr, rotates_odd_part};
const Family kGlm4{"glm4", "Glm4ForCausalLM", read_glm4, write_glm, glm4_names, nullptr, rotates_odd_part};

}  // namespace stoa::model::huggingface
