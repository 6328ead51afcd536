#include "model/huggingface/layered_rope_keys.h"

#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_nested(JsonKeys& kinds, const nlohmann::json* scaling, ModelConfig& c, double base,
                 double local_base) {
  c.rotary_base = base;
  c.rope_local_base_freq = local_base;
  nlohmann::json full = nlohmann::json::object();
  if (const auto* given = kinds.object("full_attention")) full = *given;
  if (scaling) full.update(*scaling);  // as transformers does
  read_rope_parameters(full, c, {.base = base});
  if (const auto* local = kinds.object("sliding_attention")) {
    ModelConfig sliding = c;
    sliding.rope_scaling = {};
    sliding.rotary_base = local_base;
    read_rope_parameters(*local, sliding, {.base = local_base});
    require<ConfigError>(sliding.rope_scaling.type == RopeScaling::kDefault,
                         "config.json: rope_parameters.sliding_attention is scaled; supported is rope_type "
                         "default");
    c.rope_local_base_freq = sliding.rotary_base;
  }
  kinds.finish("rope_parameters");
}

}  // namespace

void read_layered_rope(JsonKeys& keys, ModelConfig& c, double base, double local_base) {
  const auto local = keys.number("rope_local_base_freq");
  const auto* both = keys.object("rope_parameters");
  if (both && (both->contains("full_attention") || both->contains("sliding_attention"))) {
    const double theta = keys.number("rope_theta").value_or(base);
    JsonKeys kinds(*both, "rope_parameters.");
    read_nested(kinds, keys.object("rope_scaling"), c, theta, local.value_or(local_base));
  } else {
    read_rope(keys, c, {.base = base});
    c.rope_local_base_freq = local.value_or(local_base);
  }
  if (!c.window_size) c.rope_local_base_freq.reset();  // no layer that would read it
}

void write_layered_rope(const ModelConfig& c, Json& json) {
  write_rope(c, json);
  json["rope_local_base_freq"] = c.rope_local_base_freq.value_or(c.rotary_base);
  ModelConfig local = c;
  local.rotary_base = json["rope_local_base_freq"].get<double>();
  local.rope_scaling = {};
  json["rope_parameters"] = {{"full_attention", rope_parameters(c)},
                             {"sliding_attention", rope_parameters(local)}};
}

}  // namespace stoa::model::huggingface
