// Llama 2 to 3.2 (2307.09288, 2407.21783).
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_llama(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {});
  read_attention_and_mlp_bias(keys, c);
}

void write_llama(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  write_attention_and_mlp_bias(spec.config, json);
}

}  // namespace

const Family kLlama{"llama", "LlamaForCausalLM", read_llama, write_llama, llama_names,
                    nullptr, heads_do_not_divide};

}  // namespace stoa::model::huggingface
