// ERNIE 4.5, dense: llama with interleaved rotary pairs.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_ernie4_5(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c,
                  {.vocabulary = 103424,
                   .hidden = 1024,
                   .layers = 18,
                   .heads = 16,
                   .ffn = 3072,
                   .groups = 2,
                   .head_size = 128,
                   .positions = 131072,
                   .epsilon = 1e-5});
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  const bool bias = keys.boolean("use_bias").value_or(false);
  set_biases(c, bias, bias, bias);
}

void write_ernie4_5(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  json["use_bias"] = spec.config.has_mlp_bias();
}

NameMap ernie4_5_names() {
  NameMap out = llama_names();
  add_rules(out, {{"model.layers.{}.self_attn.q_proj", {"layers.{}.attention.q"}, paired_heads},
                  {"model.layers.{}.self_attn.k_proj", {"layers.{}.attention.k"}, paired_heads}});
  return out;
}

}  // namespace

const Family kErnie45{"ernie4_5", "Ernie4_5ForCausalLM", read_ernie4_5, write_ernie4_5, ernie4_5_names,
                      nullptr,    rotates_odd_part};

}  // namespace stoa::model::huggingface
