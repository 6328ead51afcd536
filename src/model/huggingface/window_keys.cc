#include "model/huggingface/window_keys.h"

#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

// Said by the simplest of the keys that can: the first layer, every n-th one, a list.
void set_window_layers(ModelConfig& c, std::vector<std::int64_t> windowed) {
  const std::int64_t first = windowed.front(), count = static_cast<std::int64_t>(windowed.size());
  if (count == c.num_layers - first) {
    if (first > 0) c.window_first_layer = first;
    return;
  }
  std::int64_t period = 1;  // the first layer without a window is the last of so many
  while (period <= count && windowed[static_cast<std::size_t>(period - 1)] == period - 1) ++period;
  c.window_attn_skip_freq = period;
  std::vector<std::int64_t> said;
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if (layer_window(c, l) > 0) said.push_back(l);
  if (said == windowed) return;
  c.window_attn_skip_freq.reset();
  c.window_layers = std::move(windowed);
}

}  // namespace

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
    c.window_attn_skip_freq.reset();
    std::vector<std::int64_t> windowed;
    for (std::int64_t l = 0; l < c.num_layers; ++l)
      if (!full(l)) windowed.push_back(l);
    require<ConfigError>(windowed.empty() || window.has_value(),
                         "config.json: layer_types has sliding layers, but there is no sliding_window");
    if (windowed.empty()) return;
    c.window_size = window;
    set_window_layers(c, std::move(windowed));
    return;
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
