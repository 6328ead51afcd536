// Llama 2 to 3.2 (2307.09288, 2407.21783).
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_llama(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {});
  const bool attention = keys.boolean("attention_bias").value_or(false),
             mlp = keys.boolean("mlp_bias").value_or(false);
  require<ConfigError>(attention == mlp,
                       "config.json: attention_bias {} with mlp_bias {} is not supported, only both alike",
                       attention, mlp);
  if (attention) c.bias = BiasKind::kAll;
}

void write_llama(const Gpt& gpt, Json& json) {
  write_llama_keys(gpt, json);
  json["attention_bias"] = gpt.config.bias == BiasKind::kAll;
  json["mlp_bias"] = gpt.config.bias == BiasKind::kAll;
}

}  // namespace

const Family kLlama{"llama", "LlamaForCausalLM", read_llama, write_llama, llama_names};

}  // namespace stoa::model::huggingface
