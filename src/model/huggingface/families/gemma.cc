// Gemma (2403.08295): llama with a gated GELU and scaled embeddings; files store the norms' weights minus 1.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_gemma(JsonKeys& keys, ModelConfig& c) {
  read_llama_sizes(keys, c,
                   {.vocabulary = 256000,
                    .hidden = 3072,
                    .layers = 28,
                    .heads = 16,
                    .ffn = 24576,
                    .head_size = 256,
                    .positions = 8192});
  // The first published files say gelu but mean the tanh approximation; transformers corrects that too.
  keys.ignore("hidden_activation");
  const std::string activation = keys.text("hidden_act").value_or("gelu_pytorch_tanh");
  c.activation = activation == "gelu" ? Activation::kGegluTanh : gated_activation(activation);
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  read_attention_bias(keys, c);
  keys.only("use_bidirectional_attention", false);
  read_rope(keys, c, {});
  c.apply_embedding_scaling = true;
}

void write_gemma(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  json["hidden_activation"] = json["hidden_act"];
  json["attention_bias"] = spec.config.has_qkv_bias();
}

NameMap gemma_one_names() {
  NameMap out = llama_names();
  zero_center_norms(out);
  return out;
}

}  // namespace

const Family kGemma{"gemma", "GemmaForCausalLM", read_gemma, write_gemma, gemma_one_names};

}  // namespace stoa::model::huggingface
