// Gemma 3's text model (2503.19786): Gemma 2 without caps, with a norm of q and k per head, one full layer
// after every five with a window, and rotary bases of their own for either kind.
#include "model/huggingface/families/families.h"
#include "model/huggingface/gemma_keys.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

constexpr double kBase = 1e6, kLocalBase = 1e4;

void read_gemma3_text(JsonKeys& keys, ModelConfig& c) {
  read_gemma_keys(keys, c,
                  {.vocabulary = 262208,
                   .hidden = 2304,
                   .layers = 26,
                   .heads = 8,
                   .ffn = 9216,
                   .groups = 4,
                   .head_size = 256,
                   .positions = 131072});
  c.qk_layernorm = true;
  keys.ignore("attn_logit_softcapping");  // written by transformers, never applied
  c.final_logit_softcapping = keys.number("final_logit_softcapping");
  keys.only("use_bidirectional_attention", false);
  c.window_attn_skip_freq = keys.integer("sliding_window_pattern", 1).value_or(6);
  read_window(keys, c, keys.integer("sliding_window", 1).value_or(4096), 0);

  c.rope_local_base_freq = keys.number("rope_local_base_freq").value_or(kLocalBase);
  // transformers 5.x nests by kind of layer.
  const auto* both = keys.object("rope_parameters");
  if (!both || !both->contains("full_attention")) {
    read_rope(keys, c, {.base = kBase});
    return;
  }
  keys.ignore("rope_theta");
  keys.ignore("rope_scaling");
  JsonKeys kinds(*both, "rope_parameters.");
  read_rope_parameters(*kinds.object("full_attention"), c, {.base = kBase});
  if (const auto* local = kinds.object("sliding_attention")) {
    ModelConfig sliding = c;
    sliding.rope_scaling = {};
    read_rope_parameters(*local, sliding, {.base = kLocalBase});
    require<ConfigError>(sliding.rope_scaling.type == RopeScaling::kDefault,
                         "config.json: rope_parameters.sliding_attention is scaled; supported is rope_type "
                         "default");
    c.rope_local_base_freq = sliding.rotary_base;
  }
  kinds.finish("gemma3_text");
}

void write_gemma3_text(const Gpt& gpt, Json& json) {
  const ModelConfig& c = gpt.config;
  write_gemma_keys(gpt, json);
  json["attn_logit_softcapping"] = Json();
  json["final_logit_softcapping"] = c.final_logit_softcapping ? Json(*c.final_logit_softcapping) : Json();
  json["sliding_window_pattern"] = c.window_attn_skip_freq.value_or(c.num_layers + 1);
  json["use_bidirectional_attention"] = false;
  write_rope(c, json);
  json["rope_local_base_freq"] = c.rope_local_base_freq.value_or(c.rotary_base);
  ModelConfig local = c;
  local.rotary_base = json["rope_local_base_freq"].get<double>();
  local.rope_scaling = {};
  json["rope_parameters"] = {{"full_attention", rope_parameters(c)},
                             {"sliding_attention", rope_parameters(local)}};
}

}  // namespace

const Family kGemma3Text{"gemma3_text", "Gemma3ForCausalLM", read_gemma3_text, write_gemma3_text,
                         gemma_names};

}  // namespace stoa::model::huggingface
