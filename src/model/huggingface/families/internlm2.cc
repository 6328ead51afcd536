// InternLM 2 (2403.17297), whose code is published with its weights: llama with its own tensor names, and q,
// k and v fused group by group.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_internlm2(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {.vocabulary = 103168});
  const bool bias = keys.boolean("bias").value_or(true);
  set_biases(c, bias, bias, false);
}

void write_internlm2(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  json["bias"] = spec.config.has_qkv_bias();
}

NameMap internlm2_names() {
  return {.prefix = "model.",
          .rules = {{"model.tok_embeddings", {"embedding.tokens"}},
                    {"model.norm", {"final_norm"}},
                    {"output", {"head"}},
                    {"model.layers.{}.attention_norm", {"layers.{}.norm1"}},
                    {"model.layers.{}.attention.wqkv",
                     {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"},
                     by_group},
                    {"model.layers.{}.attention.wo", {"layers.{}.attention.out"}},
                    {"model.layers.{}.ffn_norm", {"layers.{}.norm2"}},
                    {"model.layers.{}.feed_forward.w1", {"layers.{}.mlp.gate"}},
                    {"model.layers.{}.feed_forward.w3", {"layers.{}.mlp.up"}},
                    {"model.layers.{}.feed_forward.w2", {"layers.{}.mlp.down"}}},
          .needless = [](std::string_view name, const ModelConfig&) {
            return name.ends_with("rotary_emb.inv_freq");
          }};
}

}  // namespace

const Family kInternlm2{"internlm2", "InternLM2ForCausalLM", read_internlm2, write_internlm2,
                        internlm2_names};

}  // namespace stoa::model::huggingface
