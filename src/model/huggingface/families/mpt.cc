// MPT (MosaicML 2023): ALiBi, no biases, not even in norms.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

// Keys for training or kernels, or without effect in transformers.
constexpr const char* kNeedlessInMpt[] = {
    "init_config",     "init_device",        "verbose",   "tokenizer_name",
    "learned_pos_emb", "embedding_fraction", "norm_type", "low_precision_layernorm",
    "fc_type",         "ffn_config"};

void read_mpt_attention(const nlohmann::json& object, ModelConfig& c) {
  JsonKeys keys(object, "attn_config.");
  const std::string type = keys.text("attn_type").value_or("multihead_attention");
  require<ConfigError>(type == "multihead_attention",
                       "config.json: attn_config.attn_type {} is not supported, only multihead_attention",
                       type);
  keys.only("alibi", true);
  keys.only("prefix_lm", false);
  keys.only("qk_ln", false);
  keys.only("attn_uses_sequence_id", false);
  const double most = keys.number("alibi_bias_max").value_or(8);
  require<ConfigError>(most == 8, "config.json: attn_config.alibi_bias_max {} is not supported, only 8",
                       most);
  c.attention_dropout = c.hidden_dropout = keys.number("attn_pdrop").value_or(0);
  c.softmax_scale = keys.number("softmax_scale");
  require<ConfigError>(keys.number("clip_qkv").value_or(0) == 0,
                       "config.json: attn_config.clip_qkv is not supported, only null");
  ignore_common_keys(keys);
  keys.ignore("attn_impl");
  keys.ignore("dtype");
  keys.ignore("torch_dtype");
  keys.finish("the attention of mpt");
}

void read_mpt(JsonKeys& keys, ModelConfig& c) {
  c.vocab_size = keys.integer("vocab_size", 1).value_or(50368);
  c.hidden_size = keys.integer("d_model", 1).value_or(2048);
  c.num_layers = keys.integer("n_layers", 1).value_or(24);
  c.num_attention_heads = keys.integer("n_heads", 1).value_or(16);
  c.ffn_hidden_size = 4 * c.hidden_size;
  const double ratio = keys.number("expansion_ratio").value_or(4);
  require<ConfigError>(ratio == 4, "config.json: expansion_ratio {} is not supported, only 4", ratio);
  c.max_position_embeddings = keys.integer("max_seq_len", 1).value_or(2048);
  c.position_embedding_type = PositionEmbedding::kAlibi;
  c.normalization = Normalization::kLayerNorm;
  c.norm_bias = false;
  c.layernorm_epsilon = keys.number("layer_norm_epsilon").value_or(1e-5);
  c.activation = Activation::kGelu;
  c.bias = BiasKind::kNone;
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  keys.only("no_bias", true);
  keys.only("use_norm_bias", false);
  for (const char* dropout : {"emb_pdrop", "resid_pdrop"})
    require<ConfigError>(keys.number(dropout).value_or(0) == 0,
                         "config.json: {} has no effect in transformers; set it to 0", dropout);
  require<ConfigError>(!keys.has("logit_scale"),
                       "config.json: logit_scale has no effect in transformers' MPT; set it to null");
  keys.ignore("logit_scale");
  if (const auto* attention = keys.object("attn_config")) read_mpt_attention(*attention, c);
  for (const char* key : kNeedlessInMpt) keys.ignore(key);
}

// transformers wants a whole number: no or all.
Json whole_if_so(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

void write_mpt(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["d_model"] = c.hidden_size;
  json["n_layers"] = c.num_layers;
  json["n_heads"] = c.num_attention_heads;
  json["expansion_ratio"] = 4;
  json["max_seq_len"] = c.max_positions();
  json["layer_norm_epsilon"] = c.layernorm_epsilon;
  json["no_bias"] = true;
  Json& attention = json["attn_config"];
  attention["attn_type"] = "multihead_attention";
  attention["attn_pdrop"] = whole_if_so(c.attention_dropout);
  attention["softmax_scale"] = c.softmax_scale ? Json(*c.softmax_scale) : Json();
  attention["clip_qkv"] = Json();
  attention["alibi"] = true;
  attention["alibi_bias_max"] = 8;
}

NameMap mpt_names() {
  return {.prefix = "transformer.",
          .rules = {{"transformer.wte", {"embedding.tokens"}},
                    {"transformer.norm_f", {"final_norm"}},
                    {"lm_head", {"head"}},
                    {"transformer.blocks.{}.norm_1", {"layers.{}.norm1"}},
                    {"transformer.blocks.{}.attn.Wqkv",
                     {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"}},
                    {"transformer.blocks.{}.attn.out_proj", {"layers.{}.attention.out"}},
                    {"transformer.blocks.{}.norm_2", {"layers.{}.norm2"}},
                    {"transformer.blocks.{}.ffn.up_proj", {"layers.{}.mlp.up"}},
                    {"transformer.blocks.{}.ffn.down_proj", {"layers.{}.mlp.down"}}}};
}

}  // namespace

const Family kMpt{"mpt", "MptForCausalLM", read_mpt, write_mpt, mpt_names};

}  // namespace stoa::model::huggingface
