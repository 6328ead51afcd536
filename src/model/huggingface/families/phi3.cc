// Phi-3, 3.5, 4 (2404.14219): llama with fused projections, longrope and partial rotary positions.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_phi3(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(
      keys, c,
      {.vocabulary = 32064, .ffn = 8192, .positions = 4096, .epsilon = 1e-5, .rope = {.share = 1.0}});
  keys.only("attention_bias", false);
  c.hidden_dropout = keys.number("resid_pdrop").value_or(0);
  c.embedding_dropout = keys.number("embd_pdrop").value_or(0);
  read_window(keys, c, keys.integer("sliding_window", 1), 0);
}

void write_phi3(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json["resid_pdrop"] = c.hidden_dropout;
  json["embd_pdrop"] = c.embedding_dropout;
  json["sliding_window"] = c.window_size ? Json(*c.window_size) : Json();
  json["original_max_position_embeddings"] =
      c.rope_scaling.original_max_position_embeddings.value_or(c.max_positions());
}

NameMap phi3_names() {
  NameMap out = llama_names();
  const std::vector<NameRule> fused{
      {"model.layers.{}.self_attn.qkv_proj",
       {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"}},
      {"model.layers.{}.mlp.gate_up_proj", {"layers.{}.mlp.gate", "layers.{}.mlp.up"}}};
  out.rules.insert(out.rules.begin(), fused.begin(), fused.end());
  return out;
}

// The family's files can express longrope only, no other scaling.
bool is_other_scaling(const ModelConfig& c) {
  return c.rope_scaling.type != RopeScaling::kDefault && c.rope_scaling.type != RopeScaling::kLongrope;
}

}  // namespace

const Family kPhi3{"phi3", "Phi3ForCausalLM", read_phi3, write_phi3, phi3_names, nullptr, is_other_scaling};

}  // namespace stoa::model::huggingface
