// NomicBERT (2402.01613): BERT's layers with rotary positions, a gated MLP and no biases in linear layers.
// The first published files have GPT-2's keys.
#include "model/huggingface/encoder_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_nomic_bert(JsonKeys& keys, ModelConfig& c) {
  const auto either = [&](const char* name, const char* other, std::int64_t fallback) {
    const auto value = keys.integer(name, 1), same = keys.integer(other, 1);
    return value ? *value : same.value_or(fallback);
  };
  const auto share = [&](const char* name, const char* other) {
    const auto value = keys.number(name), same = keys.number(other);
    return value ? *value : same.value_or(0);
  };
  c.kind = ModelKind::kBert;
  c.vocab_size = keys.integer("vocab_size", 1).value_or(30528);
  c.hidden_size = either("hidden_size", "n_embd", 768);
  c.num_layers = either("num_hidden_layers", "n_layer", 12);
  c.num_attention_heads = either("num_attention_heads", "n_head", 12);
  c.ffn_hidden_size = either("intermediate_size", "n_inner", 3072);
  c.max_position_embeddings = either("max_position_embeddings", "n_positions", 2048);
  if (const auto head = keys.integer("head_dim", 1)) c.kv_channels = head;
  c.bert.num_token_types = keys.integer("type_vocab_size", 0).value_or(2);
  c.normalization = Normalization::kLayerNorm;
  const auto epsilon = keys.number("layer_norm_eps"), old_epsilon = keys.number("layer_norm_epsilon");
  c.layernorm_epsilon = epsilon ? *epsilon : old_epsilon.value_or(1e-12);
  const std::string old_activation = keys.text("activation_function").value_or("swiglu");
  require<ConfigError>(old_activation == "swiglu" || old_activation == "geglu",
                       "config.json: activation_function '{}' is not supported, expected swiglu or geglu",
                       old_activation);
  c.activation =
      gated_activation(keys.text("hidden_act").value_or(old_activation == "geglu" ? "gelu" : "silu"));
  c.bias = BiasKind::kNone;
  c.share_embeddings_and_output_weights = true;
  c.hidden_dropout = c.embedding_dropout = share("hidden_dropout_prob", "resid_pdrop");
  c.attention_dropout = share("attention_probs_dropout_prob", "attn_pdrop");
  keys.only("tie_word_embeddings", true);
  for (const char* key : {"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm", "parallel_block",
                          "causal", "rotary_emb_interleaved", "use_rms_norm"})
    keys.only(key, false);
  require<ConfigError>(keys.number("rotary_emb_fraction").value_or(1) == 1,
                       "config.json: rotary_emb_fraction other than 1 is not supported");
  require<ConfigError>(
      !keys.has("rotary_scaling_factor") && !keys.has("rotary_emb_scale_base"),
      "config.json: rotary_scaling_factor and rotary_emb_scale_base are not supported, only null");
  for (const char* key : {"embd_pdrop",
                          "use_flash_attn",
                          "fused_bias_fc",
                          "fused_dropout_add_ln",
                          "dense_seq_output",
                          "max_trained_positions",
                          "pad_vocab_size_multiple",
                          "scale_attn_weights",
                          "scale_attn_by_inverse_layer_idx",
                          "use_xentropy",
                          "last_layer_subset",
                          "add_pooling_layer",
                          "parallel_block_tied_norm",
                          "mlp_prediction_head",
                          "layer_norm_training_mode",
                          "rotary_scaling_factor",
                          "rotary_emb_scale_base",
                          "classifier_dropout",
                          "ffn_div",
                          "expert_choice_router"})
    keys.ignore(key);
  c.position_embedding_type = PositionEmbedding::kRope;
  read_rope(keys, c, {.base = keys.number("rotary_emb_base").value_or(1000)});
  read_encoder_head(keys, c, "NomicBert", false);
}

void write_nomic_bert(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_encoder_head(c, json, "NomicBert");
  json["pad_token_id"] = 0;  // where there is none: transformers wants a number, and makes nothing of it
  json["vocab_size"] = spec.vocabulary;
  json["hidden_size"] = c.hidden_size;
  json["num_hidden_layers"] = c.num_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["intermediate_size"] = c.ffn_size();
  json["head_dim"] = c.head_size();
  json["hidden_act"] = activation_name(c.activation);
  json["layer_norm_eps"] = c.layernorm_epsilon;
  json["max_position_embeddings"] = c.max_positions();
  json["type_vocab_size"] = c.bert.num_token_types;
  json["hidden_dropout_prob"] = c.hidden_dropout;
  json["attention_probs_dropout_prob"] = c.attention_dropout;
  write_rope(c, json);
}

// The decoder, which is tied; the pooler and heads of a model that does not use them.
bool is_needless_in_nomic_bert(std::string_view name, const ModelConfig& c) {
  return name.ends_with("inv_freq") || name.starts_with("cls.predictions.decoder.") ||
         (c.task.type != Task::kSequenceClassification && name.starts_with("pooler.")) ||
         ((!c.bert.lm_head || c.task.labelled()) && name.starts_with("cls.")) ||
         is_of_other_head(name, c.task);
}

NameMap nomic_bert_names() {
  const auto rule = [](const char* file, const char* part) {
    return NameRule{.file = file, .parts = {part}};
  };
  return {.prefix = "nomic_bert.",
          .rules = {rule("nomic_bert.embeddings.word_embeddings", "embedding.tokens"),
                    rule("nomic_bert.embeddings.token_type_embeddings", "embedding.types"),
                    rule("nomic_bert.emb_ln", "embedding.norm"),
                    {"nomic_bert.encoder.layers.{}.attn.Wqkv",
                     {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"}},
                    rule("nomic_bert.encoder.layers.{}.attn.out_proj", "layers.{}.attention.out"),
                    rule("nomic_bert.encoder.layers.{}.norm1", "layers.{}.norm1"),
                    rule("nomic_bert.encoder.layers.{}.mlp.fc12", "layers.{}.mlp.gate"),
                    rule("nomic_bert.encoder.layers.{}.mlp.fc11", "layers.{}.mlp.up"),
                    rule("nomic_bert.encoder.layers.{}.mlp.fc2", "layers.{}.mlp.down"),
                    rule("nomic_bert.encoder.layers.{}.norm2", "layers.{}.norm2"),
                    rule("cls.predictions.transform.dense", "head.dense"),
                    rule("cls.predictions.transform.layer_norm", "head.norm"),
                    rule("cls.predictions", "head"),
                    rule("nomic_bert.pooler.dense", "head.pooler"),
                    rule("classifier", "head.classes"),
                    rule("classifier", "head.tags"),
                    rule("qa_outputs", "head.span")},
          .needless = is_needless_in_nomic_bert};
}

}  // namespace

const Family kNomicBert{"nomic_bert", "NomicBertForMaskedLM", read_nomic_bert, write_nomic_bert,
                        nomic_bert_names};

}  // namespace stoa::model::huggingface
