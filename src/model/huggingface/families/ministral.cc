// Ministral (2410): mistral with windows in some layers.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_ministral(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {.ffn = 14336, .groups = 8, .positions = 131072});
  auto window = keys.integer("sliding_window", 1);
  if (!keys.contains("sliding_window")) window = 4096;  // absent: the default; null: none
  read_window(keys, c, window, 0);
}

void write_ministral(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  // Never null: transformers makes a mask of it though no layer may have a window.
  json["sliding_window"] = c.window_size.value_or(c.max_positions());
  write_layer_types(c, json);
}

}  // namespace

const Family kMinistral{"ministral", "MinistralForCausalLM", read_ministral, write_ministral, llama_names};

}  // namespace stoa::model::huggingface
