// gemma, gemma2 and gemma3. Norms are stored as they multiply, not minus 1 as in Hugging Face files;
// embeddings are scaled when the model runs.
#include <cmath>

#include "model/gguf/architectures/architectures.h"
#include "model/gguf/keys.h"

namespace stoa::model::gguf {
namespace {

void read_gemma_metadata(JsonKeys& keys, ModelConfig& c) {
  read_llama_like(keys, c);
  c.activation = Activation::kGegluTanh;
  c.apply_embedding_scaling = true;
}

// The largest models of both generations divide scores by the root of hidden_size / heads, which the metadata
// does not say: llama.cpp goes by the number of layers.
void set_score_scale(ModelConfig& c, std::int64_t layers_of_largest) {
  c.norm_placement = NormPlacement::kBoth;
  c.query_pre_attn_scalar = c.num_layers == layers_of_largest ? static_cast<double>(c.hidden_size) /
                                                                    static_cast<double>(c.num_attention_heads)
                                                              : static_cast<double>(c.head_size());
}

void read_gemma2_metadata(JsonKeys& keys, ModelConfig& c) {
  read_gemma_metadata(keys, c);
  set_score_scale(c, 46);
  c.attn_logit_softcapping = keys.number("attn_logit_softcapping").value_or(50);
  c.final_logit_softcapping = keys.number("final_logit_softcapping").value_or(30);
  c.window_size = keys.integer("attention.sliding_window", 1).value_or(4096);
  c.window_attn_skip_freq = 2;
}

void write_gemma2_metadata(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_like(spec, json);
  json["attn_logit_softcapping"] = c.attn_logit_softcapping.value_or(0);
  json["final_logit_softcapping"] = c.final_logit_softcapping.value_or(0);
  json["attention.sliding_window"] = c.window_size.value_or(c.max_positions());
}

void read_gemma3_metadata(JsonKeys& keys, ModelConfig& c) {
  read_gemma_metadata(keys, c);
  c.rotary_base = keys.number("rope.freq_base").value_or(1e6);
  set_score_scale(c, 62);
  c.qk_layernorm = true;
  c.final_logit_softcapping = keys.number("final_logit_softcapping");
  read_every_window(keys, c, keys.integer("attention.sliding_window_pattern", 1).value_or(6));
  const double local = keys.number("rope.freq_base_swa").value_or(1e4);
  if (c.window_size) c.rope_local_base_freq = local;
}

void write_gemma3_metadata(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_like(spec, json);
  if (c.final_logit_softcapping) json["final_logit_softcapping"] = *c.final_logit_softcapping;
  if (c.window_size) json["attention.sliding_window"] = *c.window_size;
  if (c.rope_local_base_freq.value_or(1e4) != 1e4) json["rope.freq_base_swa"] = *c.rope_local_base_freq;
}

NameMap gemma_tensors() { return block_names(); }

}  // namespace

const Family kGemma{"gemma", "GemmaForCausalLM", read_gemma_metadata, write_llama_like, gemma_tensors};
const Family kGemma2{"gemma2", "Gemma2ForCausalLM", read_gemma2_metadata, write_gemma2_metadata,
                     gemma_tensors};
const Family kGemma3{"gemma3", "Gemma3ForCausalLM", read_gemma3_metadata, write_gemma3_metadata,
                     gemma_tensors};

}  // namespace stoa::model::gguf
