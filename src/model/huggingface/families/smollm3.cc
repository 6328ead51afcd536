// SmolLM 3 (Hugging Face 2025): llama with no rotary positions in some layers.
#include <algorithm>

#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_smollm3(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c,
                  {.vocabulary = 128256,
                   .hidden = 2048,
                   .layers = 36,
                   .heads = 16,
                   .groups = 4,
                   .positions = 32768,
                   .rope = {.base = 2e6}});
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  read_attention_and_mlp_bias(keys, c);
  // 1: the layer has rope.
  const std::int64_t interval = keys.integer("no_rope_layer_interval", 1).value_or(4);
  std::vector<std::int64_t> rope = keys.integers("no_rope_layers");
  for (auto l = static_cast<std::int64_t>(rope.size()); l < c.num_layers && !keys.has("no_rope_layers"); ++l)
    rope.push_back((l + 1) % interval != 0);
  require<ConfigError>(static_cast<std::int64_t>(rope.size()) >= c.num_layers,
                       "config.json: no_rope_layers has {} entries for {} layers", rope.size(), c.num_layers);
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if (rope[static_cast<std::size_t>(l)] == 0) c.no_rope_layers.push_back(l);
  keys.ignore("max_window_layers");  // implied by layer_types
  const bool use = keys.boolean("use_sliding_window").value_or(false);
  const auto window = keys.integer("sliding_window", 1);
  if (keys.has("layer_types")) return read_window(keys, c, use ? window : std::nullopt, 0);
  // If layer_types is missing, the layers without rotary embedding have the window.
  if (!use || !window || c.no_rope_layers.empty()) return;
  c.window_size = window;
  c.window_layers = c.no_rope_layers;
}

void write_smollm3(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  write_attention_and_mlp_bias(c, json);
  Json rope = Json::array();
  for (std::int64_t l = 0; l < c.num_layers; ++l) rope.push_back(position_tables(c, l).rope >= 0 ? 1 : 0);
  json["no_rope_layers"] = rope;
  json["no_rope_layer_interval"] = 4;
  json["use_sliding_window"] = c.window_size.has_value();
  json["sliding_window"] = c.window_size ? Json(*c.window_size) : Json();
  write_layer_types(c, json);
}

}  // namespace

const Family kSmollm3{"smollm3", "SmolLM3ForCausalLM", read_smollm3, write_smollm3, llama_names};

}  // namespace stoa::model::huggingface
