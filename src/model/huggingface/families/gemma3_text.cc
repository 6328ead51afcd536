// Gemma 3's text model (2503.19786): Gemma 2 without caps, with a norm of q and k per head, one layer of full
// attention after every five with a window, and separate rotary bases for both kinds.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/rope_keys.h"
#include "model/huggingface/text_part.h"
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
  read_layered_rope(keys, c, kBase, kLocalBase);
}

void write_gemma3_text(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_gemma_keys(spec, json);
  json["attn_logit_softcapping"] = Json();
  json["final_logit_softcapping"] = c.final_logit_softcapping ? Json(*c.final_logit_softcapping) : Json();
  json["sliding_window_pattern"] = c.window_attn_skip_freq.value_or(c.num_layers + 1);
  json["use_bidirectional_attention"] = false;
  write_layered_rope(c, json);
}

// Multimodal Gemma 3: only its language model is read.
void read_gemma3(JsonKeys& keys, ModelConfig& c) { read_text_part(keys, c, "gemma3_text", read_gemma3_text); }

void write_gemma3(const ModelSpec& spec, Json& json) {
  Json text;
  text["model_type"] = "gemma3_text";
  write_gemma3_text(spec, text);
  text["tie_word_embeddings"] = spec.config.share_embeddings_and_output_weights;
  json["text_config"] = std::move(text);
}

NameMap gemma3_names() { return names_of_text_part(gemma_names()); }

}  // namespace

const Family kGemma3{
    "gemma3",      "Gemma3ForConditionalGeneration", read_gemma3, write_gemma3, gemma3_names, nullptr,
    always_refused};
const Family kGemma3Text{"gemma3_text", "Gemma3ForCausalLM", read_gemma3_text, write_gemma3_text, gemma_names,
                         nullptr,       heads_do_not_divide};

}  // namespace stoa::model::huggingface
