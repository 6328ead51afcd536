// Command R (Cohere 2024) and Command R7B, A (2504.00698): parallel branches with one shared LayerNorm
// without bias, interleaved rotary pairs, scaled logits. In the second, layers with a window use rotary
// positions and the others none.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_cohere_keys(JsonKeys& keys, ModelConfig& c, double base) {
  read_llama_keys(keys, c,
                  {.vocabulary = 256000,
                   .hidden = 8192,
                   .layers = 40,
                   .heads = 64,
                   .ffn = 22528,
                   .positions = 8192,
                   .rope = {.base = base}});
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.normalization = Normalization::kLayerNorm;
  c.norm_bias = false;
  c.layernorm_epsilon = keys.number("layer_norm_eps").value_or(1e-5);
  keys.ignore("rms_norm_eps");
  c.use_parallel_residual = true;
  c.num_ln_in_parallel_attn = 1;
  c.logit_scale = keys.number("logit_scale").value_or(0.0625);
  read_attention_bias(keys, c);
  keys.only("use_qk_norm", false);
  keys.ignore("model_max_length");
}

void write_cohere_keys(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json.erase("rms_norm_eps");
  json["layer_norm_eps"] = c.layernorm_epsilon;
  json["logit_scale"] = c.logit_scale;
  json["attention_bias"] = c.has_qkv_bias();
}

void read_cohere(JsonKeys& keys, ModelConfig& c) { read_cohere_keys(keys, c, 5e5); }

void write_cohere(const ModelSpec& spec, Json& json) {
  write_cohere_keys(spec, json);
  json["use_qk_norm"] = false;
}

void read_cohere2(JsonKeys& keys, ModelConfig& c) {
  read_cohere_keys(keys, c, 1e4);
  const auto window =
      keys.contains("sliding_window") ? keys.integer("sliding_window", 1) : std::optional<std::int64_t>(4096);
  c.window_attn_skip_freq = keys.integer("sliding_window_pattern", 1).value_or(4);
  read_window(keys, c, window, 0);
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if (layer_window(c, l) == 0) c.no_rope_layers.push_back(l);
  // Said once more by the first files.
  for (const char* key :
       {"use_embedding_sharing", "use_gated_activation", "use_parallel_block", "use_parallel_embedding"})
    keys.only(key, true);
  for (const char* key : {"layer_switch", "order_of_interleaved_layers", "position_embedding_type",
                          "rotary_pct", "cache_implementation"})
    keys.ignore(key);
}

void write_cohere2(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_cohere_keys(spec, json);
  // layer_types say which layers have it; transformers makes masks of it in any case.
  json["sliding_window"] = c.window_size.value_or(c.max_positions());
  write_layer_types(c, json);
}

NameMap cohere_names() {
  NameMap out = llama_names();
  for (NameRule& rule : out.rules)
    if (rule.parts.front() == "layers.{}.attention.q" || rule.parts.front() == "layers.{}.attention.k")
      rule.arrange = paired_heads;
  return out;
}

}  // namespace

const Family kCohere{"cohere", "CohereForCausalLM", read_cohere, write_cohere, cohere_names};
const Family kCohere2{"cohere2", "Cohere2ForCausalLM", read_cohere2, write_cohere2, cohere_names};

}  // namespace stoa::model::huggingface
