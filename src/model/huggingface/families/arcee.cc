// Arcee AFM: llama with a plain MLP of squared ReLU.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_arcee(JsonKeys& keys, ModelConfig& c) {
  read_llama_sizes(keys, c, {.hidden = 2560, .ffn = 18432, .positions = 4096, .epsilon = 1e-5});
  c.activation = plain_activation(keys.text("hidden_act").value_or("relu2"));
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  read_attention_and_mlp_bias(keys, c);
  read_rope(keys, c, {});
}

void write_arcee(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  write_attention_and_mlp_bias(spec.config, json);
}

}  // namespace

const Family kArcee{"arcee", "ArceeForCausalLM", read_arcee, write_arcee, llama_names,
                    nullptr, heads_do_not_divide};

}  // namespace stoa::model::huggingface
