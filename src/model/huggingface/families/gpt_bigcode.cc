// StarCoder and SantaCoder (2305.06161, 2301.03988): GPT-2 with multi-query attention.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_gpt_bigcode(JsonKeys& keys, ModelConfig& c) {
  c.vocab_size = keys.integer("vocab_size", 1).value_or(50257);
  c.hidden_size = keys.integer("n_embd", 1).value_or(768);
  c.num_layers = keys.integer("n_layer", 1).value_or(12);
  c.num_attention_heads = keys.integer("n_head", 1).value_or(12);
  c.num_query_groups = keys.boolean("multi_query").value_or(true) ? 1 : c.num_attention_heads;
  c.ffn_hidden_size = keys.integer("n_inner", 1).value_or(4 * c.hidden_size);
  c.max_position_embeddings = keys.integer("n_positions", 1).value_or(1024);
  c.position_embedding_type = PositionEmbedding::kLearnedAbsolute;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_epsilon").value_or(1e-5);
  c.activation = plain_activation(keys.text("activation_function").value_or("gelu_pytorch_tanh"));
  c.bias = BiasKind::kAll;
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.hidden_dropout = keys.number("resid_pdrop").value_or(0.1);
  c.embedding_dropout = keys.number("embd_pdrop").value_or(0.1);
  c.attention_dropout = keys.number("attn_pdrop").value_or(0.1);
  if (!keys.boolean("scale_attn_weights").value_or(true)) c.softmax_scale = 1;
  keys.only("add_cross_attention", false);
  // Keys for rounding and for old inference code.
  for (const char* key : {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
                          "num_key_value_heads", "inference_runner", "validate_runner_input",
                          "pre_allocate_kv_cache", "max_sequence_length", "max_batch_size", "pad_key_length"})
    keys.ignore(key);
}

void write_gpt_bigcode(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["n_embd"] = c.hidden_size;
  json["n_layer"] = c.num_layers;
  json["n_head"] = c.num_attention_heads;
  json["multi_query"] = c.query_groups() == 1;
  json["n_inner"] = c.ffn_size();
  json["n_positions"] = c.max_positions();
  json["activation_function"] = activation_name(c.activation);
  json["layer_norm_epsilon"] = c.layernorm_epsilon;
  json["resid_pdrop"] = c.hidden_dropout;
  json["embd_pdrop"] = c.embedding_dropout;
  json["attn_pdrop"] = c.attention_dropout;
  json["scale_attn_weights"] = !c.softmax_scale;
}

// One head of keys: all queries, the key, the value; otherwise head by head.
std::vector<RowRun> fused_heads(const ModelConfig& c, const std::vector<CanonicalTensor>& parts) {
  return c.query_groups() == 1 ? stacked(c, parts) : by_head(c, parts);
}

bool is_old_buffer(std::string_view name, const ModelConfig&) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

NameMap gpt_bigcode_names() {
  return {.prefix = "transformer.",
          .rules = {{"transformer.wte", {"embedding.tokens"}},
                    {"transformer.wpe", {"embedding.positions"}},
                    {"transformer.ln_f", {"final_norm"}},
                    {"lm_head", {"head"}},
                    {"transformer.h.{}.ln_1", {"layers.{}.norm1"}},
                    {"transformer.h.{}.attn.c_attn",
                     {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"},
                     fused_heads},
                    {"transformer.h.{}.attn.c_proj", {"layers.{}.attention.out"}},
                    {"transformer.h.{}.ln_2", {"layers.{}.norm2"}},
                    {"transformer.h.{}.mlp.c_fc", {"layers.{}.mlp.up"}},
                    {"transformer.h.{}.mlp.c_proj", {"layers.{}.mlp.down"}}},
          .needless = is_old_buffer};
}

}  // namespace

const Family kGptBigcode{"gpt_bigcode", "GPTBigCodeForCausalLM", read_gpt_bigcode, write_gpt_bigcode,
                         gpt_bigcode_names};

}  // namespace stoa::model::huggingface
