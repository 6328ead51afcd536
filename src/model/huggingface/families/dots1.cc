// dots.llm1 (2506.05767): DeepSeek-V3's experts with a norm of q and k per head, and windows.
#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_dots1(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(
      keys, c,
      {.vocabulary = 152064, .hidden = 4608, .layers = 62, .ffn = 10944, .groups = 32, .positions = 2048});
  read_attention_bias(keys, c);
  c.qk_layernorm = true;
  auto window = keys.integer("sliding_window", 1);
  if (!keys.contains("sliding_window")) window = 4096;  // absent: the default; null: none
  read_window(keys, c, window, keys.integer("max_window_layers").value_or(62));
  read_grouped_experts(keys, c, {2, 1, 1408, 1, 1, 1, 0, false, 1});
}

void write_dots1(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json["attention_bias"] = c.has_qkv_bias();
  json["sliding_window"] = c.window_size ? Json(*c.window_size) : Json();
  json["max_window_layers"] = c.window_size ? c.window_first_layer.value_or(0) : c.num_layers;
  write_layer_types(c, json);
  write_grouped_experts(c, json);
}

NameMap dots1_names() {
  NameMap out = llama_names();
  out.needless = is_further_layer;
  add_rules(out, grouped_expert_names());
  return out;
}

}  // namespace

const Family kDots1{"dots1", "Dots1ForCausalLM", read_dots1, write_dots1, dots1_names};

}  // namespace stoa::model::huggingface
