// OLMo 2 (2501.00656): llama with norms after the branches, and norms of q and k over all heads.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_olmo2(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {.vocabulary = 50304, .epsilon = 1e-5});
  read_attention_bias(keys, c);
  c.norm_placement = NormPlacement::kAfter;
  c.qk_layernorm = c.qk_layernorm_all_heads = true;
}

void write_olmo2(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  json["attention_bias"] = spec.config.has_qkv_bias();
}

NameMap olmo2_names() {
  NameMap out = llama_names();
  const std::vector<NameRule> norms{
      {"model.layers.{}.post_attention_layernorm", {"layers.{}.attention_norm"}},
      {"model.layers.{}.post_feedforward_layernorm", {"layers.{}.mlp_norm"}}};
  out.rules.insert(out.rules.end(), norms.begin(), norms.end());
  return out;
}

}  // namespace

const Family kOlmo2{"olmo2", "Olmo2ForCausalLM", read_olmo2, write_olmo2, olmo2_names};

}  // namespace stoa::model::huggingface
