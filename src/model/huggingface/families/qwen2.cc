// Qwen 2 and 2.5 (2407.10671, 2412.15115): llama with biases of q, k and v, and a window from a given layer
// on.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_qwen2(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {.vocabulary = 151936, .ffn = 22016, .groups = 32, .positions = 32768});
  c.bias = BiasKind::kQkv;
  keys.only("attention_bias", false);
  read_qwen_window(keys, c);
}

void write_qwen2(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  write_qwen_window(spec.config, json);
}

}  // namespace

const Family kQwen2{"qwen2", "Qwen2ForCausalLM", read_qwen2, write_qwen2, llama_names};

}  // namespace stoa::model::huggingface
