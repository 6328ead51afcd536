#include "model/huggingface/window_keys.h"

#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {

void read_window(JsonKeys& keys, ModelConfig& c, std::optional<std::int64_t> window, std::int64_t first) {
  if (const auto pattern = keys.texts("layer_types")) {
    require<ConfigError>(static_cast<std::int64_t>(pattern->size()) == c.num_layers,
                         "config.json: layer_types has {} entries for {} layers", pattern->size(),
                         c.num_layers);
    const auto full = [&](std::int64_t l) {
      const std::string& kind = (*pattern)[static_cast<std::size_t>(l)];
      require<ConfigError>(kind == "full_attention" || kind == "sliding_attention",
                           "config.json: layer_types[{}] is '{}', expected full_attention or "
                           "sliding_attention",
                           l, kind);
      return kind == "full_attention";
    };
    first = 0;
    c.window_attn_skip_freq.reset();
    while (first < c.num_layers && full(first)) ++first;
    std::int64_t period = 0;  // full layers stand at every so many
    for (std::int64_t l = first; l < c.num_layers; ++l) {
      if (full(l) && period == 0 && first == 0) period = l + 1;
      require<ConfigError>(
          full(l) == (period > 0 && (l + 1) % period == 0),
          "config.json: layer_types[{}] is '{}': supported are full_attention layers followed "
          "by sliding_attention layers, and every n-th layer with full_attention",
          l, (*pattern)[static_cast<std::size_t>(l)]);
    }
    if (period > 0) c.window_attn_skip_freq = period;
    require<ConfigError>(first == c.num_layers || window.has_value(),
                         "config.json: layer_types has sliding layers, but there is no sliding_window");
  }
  if (!window || first >= c.num_layers) {
    c.window_attn_skip_freq.reset();
    return;
  }
  c.window_size = window;
  if (first > 0) c.window_first_layer = first;
}

void write_layer_types(const ModelConfig& c, Json& json) {
  Json types = Json::array();
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    types.push_back(layer_window(c, l) > 0 ? "sliding_attention" : "full_attention");
  json["layer_types"] = types;
}

void read_qwen_window(JsonKeys& keys, ModelConfig& c) {
  const bool use = keys.boolean("use_sliding_window").value_or(false);
  const std::int64_t first = keys.integer("max_window_layers").value_or(28);
  const std::int64_t window = keys.integer("sliding_window", 1).value_or(4096);
  read_window(keys, c, use ? std::optional(window) : std::nullopt, first);
}

void write_qwen_window(const ModelConfig& c, Json& json) {
  json["use_sliding_window"] = c.window_size.has_value();
  json["sliding_window"] = c.window_size ? Json(*c.window_size) : Json();
  json["max_window_layers"] = c.window_size ? c.window_first_layer.value_or(0) : c.num_layers;
  write_layer_types(c, json);
}

}  // namespace stoa::model::huggingface
