// Gemma 3's text model (2503.19786): Gemma 2 without caps, with a norm of q and k per head, one full layer
// after every five with a window, and rotary bases of their own for either kind.
#include "model/huggingface/families/families.h"
#include "model/huggingface/gemma_keys.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/layered_rope_keys.h"
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

void write_gemma3_text(const Gpt& gpt, Json& json) {
  const ModelConfig& c = gpt.config;
  write_gemma_keys(gpt, json);
  json["attn_logit_softcapping"] = Json();
  json["final_logit_softcapping"] = c.final_logit_softcapping ? Json(*c.final_logit_softcapping) : Json();
  json["sliding_window_pattern"] = c.window_attn_skip_freq.value_or(c.num_layers + 1);
  json["use_bidirectional_attention"] = false;
  write_layered_rope(c, json);
}

// Of a model that sees images: its language model, in a dictionary of its own.
void read_gemma3(JsonKeys& keys, ModelConfig& c) {
  const auto* text = keys.object("text_config");
  require<ConfigError>(text != nullptr, "config.json: text_config is missing");
  JsonKeys inner(*text, "text_config.");
  ignore_common_keys(inner);
  for (const char* key :
       {"dtype", "torch_dtype", "bos_token_id", "eos_token_id", "pad_token_id", "cache_implementation"})
    inner.ignore(key);
  read_gemma3_text(inner, c);
  if (const auto tied = keys.boolean("tie_word_embeddings")) c.share_embeddings_and_output_weights = *tied;
  inner.finish("gemma3_text");
  for (const char* key : {"vision_config", "mm_tokens_per_image", "image_token_index", "image_token_id",
                          "boi_token_index", "boi_token_id", "eoi_token_index", "eoi_token_id"})
    keys.ignore(key);
}

void write_gemma3(const Gpt& gpt, Json& json) {
  Json text;
  text["model_type"] = "gemma3_text";
  write_gemma3_text(gpt, text);
  text["tie_word_embeddings"] = gpt.config.share_embeddings_and_output_weights;
  json["text_config"] = std::move(text);
}

bool is_of_images(std::string_view name, const ModelConfig&) {
  for (const std::string_view part : {"vision_tower.", "vision_model.", "multi_modal_projector."})
    if (name.starts_with(part)) return true;
  return false;
}

NameMap gemma3_names() {
  NameMap out = gemma_names();
  out.other_prefixes = {"language_model.model.", "model.language_model.", "language_model."};
  out.needless = is_of_images;
  return out;
}

// What Stoa holds of it sees no images: it is written as gemma3_text.
bool always_refused(const ModelConfig&) { return true; }

}  // namespace

const Family kGemma3{
    "gemma3",      "Gemma3ForConditionalGeneration", read_gemma3, write_gemma3, gemma3_names, nullptr,
    always_refused};
const Family kGemma3Text{"gemma3_text", "Gemma3ForCausalLM", read_gemma3_text, write_gemma3_text, gemma_names,
                         nullptr,       heads_do_not_divide};

}  // namespace stoa::model::huggingface
