// EXAONE 4 (2507.11407): llama with norms after the branches and of q and k per head; in models with windows,
// the layers without a window have no rotary positions.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_exaone4(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {.vocabulary = 102400, .ffn = 16384, .epsilon = 1e-5});
  c.norm_placement = NormPlacement::kAfter;
  c.qk_layernorm = true;
  const auto window =
      keys.contains("sliding_window") ? keys.integer("sliding_window", 1) : std::optional<std::int64_t>(4096);
  if (keys.has("layer_types"))
    keys.ignore("sliding_window_pattern");  // says the same, "LLLG" in the first files
  else
    c.window_attn_skip_freq = keys.integer("sliding_window_pattern", 1).value_or(4);
  read_window(keys, c, window, 0);
  for (std::int64_t l = 0; window && l < c.num_layers; ++l)
    if (layer_window(c, l) == 0) c.no_rope_layers.push_back(l);
}

void write_exaone4(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  // Without a window in any layer it still says that no layer rotates.
  json["sliding_window"] = c.window_size              ? Json(*c.window_size)
                           : c.no_rope_layers.empty() ? Json()
                                                      : Json(c.max_positions());
  write_layer_types(c, json);
}

NameMap exaone4_names() {
  NameMap out = llama_names();
  add_rules(out, {{"model.layers.{}.post_attention_layernorm", {"layers.{}.attention_norm"}},
                  {"model.layers.{}.post_feedforward_layernorm", {"layers.{}.mlp_norm"}}});
  return out;
}

}  // namespace

const Family kExaone4{"exaone4", "Exaone4ForCausalLM", read_exaone4, write_exaone4, exaone4_names};

}  // namespace stoa::model::huggingface
