// Helium: llama with interleaved rotary pairs.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_helium(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c,
                  {.vocabulary = 48000,
                   .hidden = 2560,
                   .layers = 24,
                   .heads = 20,
                   .ffn = 7040,
                   .groups = 20,
                   .head_size = 128,
                   .positions = 4096,
                   .epsilon = 1e-8});
  set_biases(c, keys.boolean("attention_bias").value_or(false), false,
             keys.boolean("mlp_bias").value_or(false));
}

void write_helium(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  write_attention_and_mlp_bias(spec.config, json);
}

NameMap helium_names() {
  NameMap out = llama_names();
  add_rules(out, {{"model.layers.{}.self_attn.q_proj", {"layers.{}.attention.q"}, paired_heads},
                  {"model.layers.{}.self_attn.k_proj", {"layers.{}.attention.k"}, paired_heads}});
  return out;
}

// Its output projection is square.
bool is_no_helium(const ModelConfig& c) {
  return c.head_size() * c.num_attention_heads != c.hidden_size || rotates_odd_part(c);
}

}  // namespace

const Family kHelium{"helium", "HeliumForCausalLM", read_helium, write_helium, helium_names,
                     nullptr,  is_no_helium};

}  // namespace stoa::model::huggingface
