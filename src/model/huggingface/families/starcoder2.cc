// StarCoder 2 (2402.19173): llama's attention with LayerNorm, biases and a plain MLP.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_starcoder2(JsonKeys& keys, ModelConfig& c) {
  read_llama_sizes(keys, c,
                   {.vocabulary = 49152,
                    .hidden = 3072,
                    .layers = 30,
                    .heads = 24,
                    .ffn = 12288,
                    .groups = 2,
                    .positions = 4096});
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("norm_epsilon").value_or(1e-5);
  for (const char* key : {"norm_type", "mlp_type"}) keys.ignore(key);  // of the first files: what it is
  c.activation = plain_activation(keys.text("hidden_act").value_or("gelu_pytorch_tanh"));
  const bool bias = keys.boolean("use_bias").value_or(true);
  set_biases(c, bias, bias, bias);
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.hidden_dropout = keys.number("residual_dropout").value_or(0);
  c.embedding_dropout = keys.number("embedding_dropout").value_or(0);
  read_window(keys, c, keys.integer("sliding_window", 1), 0);
  read_rope(keys, c, {});
}

void write_starcoder2(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json.erase("rms_norm_eps");
  json["norm_epsilon"] = c.layernorm_epsilon;
  json["use_bias"] = c.has_mlp_bias();
  json["residual_dropout"] = c.hidden_dropout;
  json["embedding_dropout"] = c.embedding_dropout;
  json["sliding_window"] = c.window_size ? Json(*c.window_size) : Json();
}

NameMap starcoder2_names() {
  NameMap out = llama_names();
  add_rules(out, {{"model.layers.{}.mlp.c_fc", {"layers.{}.mlp.up"}},
                  {"model.layers.{}.mlp.c_proj", {"layers.{}.mlp.down"}}});
  return out;
}

}  // namespace

const Family kStarcoder2{"starcoder2", "Starcoder2ForCausalLM", read_starcoder2, write_starcoder2,
                         starcoder2_names};

}  // namespace stoa::model::huggingface
