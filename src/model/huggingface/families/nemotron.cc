// Nemotron (2402.16819, 2406.11704): LayerNorm whose weights are stored minus 1, a plain MLP with squared
// ReLU, half of each head rotates.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_nemotron(JsonKeys& keys, ModelConfig& c) {
  read_llama_sizes(keys, c,
                   {.vocabulary = 256000, .hidden = 6144, .heads = 48, .ffn = 24576, .positions = 4096});
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("norm_eps").value_or(1e-5);
  c.activation = plain_activation(keys.text("hidden_act").value_or("relu2"));
  read_attention_and_mlp_bias(keys, c);
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  read_rope(keys, c, {.share = 0.5});
}

void write_nemotron(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json.erase("rms_norm_eps");
  json["norm_eps"] = c.layernorm_epsilon;
  write_attention_and_mlp_bias(c, json);
  json["partial_rotary_factor"] = c.rotary_percentage;
  json["rope_parameters"]["partial_rotary_factor"] = c.rotary_percentage;
}

NameMap nemotron_names() {
  NameMap out = llama_names();
  zero_center_norms(out);
  return out;
}

}  // namespace

const Family kNemotron{"nemotron", "NemotronForCausalLM", read_nemotron, write_nemotron, nemotron_names};

}  // namespace stoa::model::huggingface
