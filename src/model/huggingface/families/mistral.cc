// Mistral 7B (2310.06825): llama with a sliding window in every layer.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_mistral(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {.ffn = 14336, .groups = 8, .positions = 131072});
  keys.only("attention_bias", false);
  auto window = keys.integer("sliding_window", 1);
  if (!keys.contains("sliding_window")) window = 4096;  // absent: the default; null: none
  read_window(keys, c, window, 0);
}

void write_mistral(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  json["sliding_window"] = spec.config.window_size ? Json(*spec.config.window_size) : Json();
}

}  // namespace

const Family kMistral{"mistral", "MistralForCausalLM", read_mistral, write_mistral, llama_names};

}  // namespace stoa::model::huggingface
