// Gemma 2 (2408.00118): norms before and after both branches, a window in every other layer, soft caps of
// attention scores and logits, scaled embeddings. Files store the norms' weights minus 1.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_gemma2(JsonKeys& keys, ModelConfig& c) {
  read_gemma_keys(keys, c,
                  {.vocabulary = 256000,
                   .hidden = 2304,
                   .layers = 26,
                   .heads = 8,
                   .ffn = 9216,
                   .groups = 4,
                   .head_size = 256,
                   .positions = 8192});
  read_rope(keys, c, {});
  // Present and null: no cap.
  const auto cap = [&](const char* key, double fallback) {
    return keys.contains(key) ? keys.number(key) : std::optional(fallback);
  };
  c.attn_logit_softcapping = cap("attn_logit_softcapping", 50);
  c.final_logit_softcapping = cap("final_logit_softcapping", 30);
  c.window_attn_skip_freq = 2;
  read_window(keys, c, keys.integer("sliding_window", 1).value_or(4096), 0);
}

void write_gemma2(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_gemma_keys(spec, json);
  write_rope(c, json);
  json["attn_logit_softcapping"] = c.attn_logit_softcapping ? Json(*c.attn_logit_softcapping) : Json();
  json["final_logit_softcapping"] = c.final_logit_softcapping ? Json(*c.final_logit_softcapping) : Json();
}

}  // namespace

const Family kGemma2{"gemma2", "Gemma2ForCausalLM", read_gemma2, write_gemma2, gemma_names,
                     nullptr,  heads_do_not_divide};

}  // namespace stoa::model::huggingface
