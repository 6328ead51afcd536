// Mixtral (2401.04088): mistral with experts in every layer.
#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_mixtral(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c,
                  {.ffn = 14336, .groups = 8, .positions = 131072, .epsilon = 1e-5, .rope = {.base = 1e6}});
  keys.only("attention_bias", false);
  read_window(keys, c, keys.integer("sliding_window", 1), 0);
  read_experts(keys, c, 8, 2);
  c.moe.moe_ffn_hidden_size = c.ffn_size();
  const double jitter = keys.number("router_jitter_noise").value_or(0);
  require<ConfigError>(jitter == 0, "config.json: router_jitter_noise {} is not supported, only 0", jitter);
}

void write_mixtral(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json["sliding_window"] = c.window_size ? Json(*c.window_size) : Json();
  write_experts(c, json);
  json["intermediate_size"] = c.moe_ffn_size();
  json["router_jitter_noise"] = 0.0;
}

// Per-expert names, which both versions of transformers write and read; packed ones (5.x in memory) are not
// written.
NameMap mixtral_names() {
  NameMap out = llama_names();
  add_rules(out, block_sparse_names());
  return out;
}

}  // namespace

const Family kMixtral{"mixtral", "MixtralForCausalLM", read_mixtral, write_mixtral, mixtral_names};

}  // namespace stoa::model::huggingface
