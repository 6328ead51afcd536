// granite: llama with factors of embeddings, branches, scores and logits. Rows of q and k are stored pair by
// pair, as llama's.
#include "model/gguf/architectures/architectures.h"
#include "model/gguf/keys.h"

namespace stoa::model::gguf {
namespace {

void read_granite_metadata(JsonKeys& keys, ModelConfig& c) {
  read_llama_like(keys, c);
  c.embedding_multiplier = keys.number("embedding_scale").value_or(1);
  c.residual_multiplier = keys.number("residual_scale").value_or(1);
  const double logits = keys.number("logit_scale").value_or(1);
  require<ConfigError>(logits != 0, "logit_scale is 0");
  c.logit_scale = 1 / logits;
  c.softmax_scale = keys.number("attention.scale");
}

void write_granite_metadata(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_like(spec, json);
  json["embedding_scale"] = c.embedding_multiplier;
  json["residual_scale"] = c.residual_multiplier;
  json["logit_scale"] = 1 / c.logit_scale;
  if (c.softmax_scale) json["attention.scale"] = *c.softmax_scale;
}

NameMap granite_tensors() { return block_names(true); }

}  // namespace

const Family kGranite{"granite", "GraniteForCausalLM", read_granite_metadata, write_granite_metadata,
                      granite_tensors};

}  // namespace stoa::model::gguf
