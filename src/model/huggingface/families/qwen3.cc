// Qwen 3 (2505.09388): llama with a norm of q and k per head, and a window from a given layer on.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_qwen3(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c,
                  {.vocabulary = 151936, .ffn = 22016, .groups = 32, .head_size = 128, .positions = 32768});
  c.qk_layernorm = true;
  read_attention_bias(keys, c);
  read_qwen_window(keys, c);
}

void write_qwen3(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  json["attention_bias"] = spec.config.has_qkv_bias();
  write_qwen_window(spec.config, json);
}

}  // namespace

const Family kQwen3{"qwen3", "Qwen3ForCausalLM", read_qwen3, write_qwen3, llama_names};

}  // namespace stoa::model::huggingface
