// MiniCPM (2404.06395): llama with multipliers of embeddings, branches and logits, given in terms of width
// and depth.
#include <cmath>

#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

// A factor x whose quotient by `divisor` is `quotient` to the last bit, where there is one.
double factor_of(double quotient, double divisor) {
  const double near = quotient * divisor;
  for (const double x : {near, std::nextafter(near, 0.0), std::nextafter(near, 2 * near)})
    if (x / divisor == quotient) return x;
  return near;
}

double depth(const ModelConfig& c) { return std::sqrt(static_cast<double>(c.num_layers)); }

void read_minicpm(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {});
  read_attention_bias(keys, c);
  keys.only("mlp_bias", false);
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.embedding_multiplier = keys.number("scale_emb").value_or(1);
  c.residual_multiplier = keys.number("scale_depth").value_or(1) / depth(c);
  c.logit_scale = keys.number("dim_model_base").value_or(1) / static_cast<double>(c.hidden_size);
}

void write_minicpm(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json["attention_bias"] = c.has_qkv_bias();
  json["scale_emb"] = c.embedding_multiplier;
  json["scale_depth"] = factor_of(c.residual_multiplier, depth(c));
  json["dim_model_base"] = factor_of(c.logit_scale, static_cast<double>(c.hidden_size));
}

}  // namespace

const Family kMinicpm{"minicpm", "MiniCPMForCausalLM", read_minicpm, write_minicpm, llama_names};

}  // namespace stoa::model::huggingface
