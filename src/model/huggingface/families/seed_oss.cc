// Seed-OSS: llama with biases of q, k and v, and a separate option for the bias of the output projection.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_seed_oss(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c,
                  {.vocabulary = 155136,
                   .layers = 64,
                   .heads = 80,
                   .ffn = 27648,
                   .groups = 8,
                   .head_size = 128,
                   .positions = 524288});
  set_biases(c, keys.boolean("attention_bias").value_or(true),
             keys.boolean("attention_out_bias").value_or(false), keys.boolean("mlp_bias").value_or(false));
  c.attention_dropout = keys.number("attention_dropout").value_or(0.1);
  c.hidden_dropout = keys.number("residual_dropout").value_or(0.1);
}

void write_seed_oss(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  write_attention_and_mlp_bias(c, json);
  json["attention_out_bias"] = c.has_attention_output_bias();
  json["residual_dropout"] = c.hidden_dropout;
}

}  // namespace

const Family kSeedOss{"seed_oss", "SeedOssForCausalLM", read_seed_oss, write_seed_oss, llama_names};

}  // namespace stoa::model::huggingface
