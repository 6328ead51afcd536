// MPNet (2004.09297): RoBERTa's layers with T5's relative-position bias, shared by all layers.
#include "model/huggingface/encoder_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

constexpr std::int64_t kFirstOfMpnet = 2;  // after that of padding, which transformers fixes at 1
constexpr std::int64_t kBuckets = 32;      // likewise

void read_mpnet(JsonKeys& keys, ModelConfig& c) {
  c.kind = ModelKind::kBert;
  c.vocab_size = keys.integer("vocab_size", 1).value_or(30527);
  c.hidden_size = keys.integer("hidden_size", 1).value_or(768);
  c.num_layers = keys.integer("num_hidden_layers", 1).value_or(12);
  c.num_attention_heads = keys.integer("num_attention_heads", 1).value_or(12);
  c.ffn_hidden_size = keys.integer("intermediate_size", 1).value_or(3072);
  c.max_position_embeddings =
      keys.integer("max_position_embeddings", kFirstOfMpnet + 1).value_or(512) - kFirstOfMpnet;
  c.bert.num_token_types = 0;
  c.bert.first_position = kFirstOfMpnet;
  c.bert.relative_attention_num_buckets =
      keys.integer("relative_attention_num_buckets", 1).value_or(kBuckets);
  require<ConfigError>(
      c.bert.relative_attention_num_buckets == kBuckets,
      "config.json: relative_attention_num_buckets is {}, expected {}: transformers computes no other",
      *c.bert.relative_attention_num_buckets, kBuckets);
  c.position_embedding_type = PositionEmbedding::kLearnedAbsolute;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_eps").value_or(1e-12);
  c.activation = plain_activation(keys.text("hidden_act").value_or("gelu"));
  c.bias = BiasKind::kAll;
  c.share_embeddings_and_output_weights = true;
  c.hidden_dropout = c.embedding_dropout = keys.number("hidden_dropout_prob").value_or(0.1);
  c.attention_dropout = keys.number("attention_probs_dropout_prob").value_or(0.1);
  keys.only("tie_word_embeddings", true);
  keys.ignore("classifier_dropout");
  read_encoder_head(keys, c, "MPNet", false);
  c.task.classifier_dropout.reset();  // hidden_dropout_prob
}

void write_mpnet(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_encoder_head(c, json, "MPNet");
  json.erase("classifier_dropout");
  json["vocab_size"] = spec.vocabulary;
  json["hidden_size"] = c.hidden_size;
  json["num_hidden_layers"] = c.num_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["intermediate_size"] = c.ffn_size();
  json["hidden_act"] = activation_name(c.activation);
  json["layer_norm_eps"] = c.layernorm_epsilon;
  json["max_position_embeddings"] = c.max_positions() + kFirstOfMpnet;
  json["relative_attention_num_buckets"] = kBuckets;
  json["hidden_dropout_prob"] = c.hidden_dropout;
  json["attention_probs_dropout_prob"] = c.attention_dropout;
}

// Buffers; the decoder, which is tied; the pooler and heads of a model that does not use them.
bool is_needless_in_mpnet(std::string_view name, const ModelConfig& c) {
  return name == "embeddings.position_ids" || name.starts_with("lm_head.decoder.") ||
         name.starts_with("pooler.") ||
         ((!c.bert.lm_head || c.task.labelled()) && name.starts_with("lm_head.")) ||
         is_of_other_head(name, c.task);
}

NameMap mpnet_names() {
  const auto rule = [](const char* file, const char* part) {
    return NameRule{.file = file, .parts = {part}};
  };
  return {.prefix = "mpnet.",
          .rules = {rule("mpnet.embeddings.word_embeddings", "embedding.tokens"),
                    rule("mpnet.embeddings.position_embeddings", "embedding.positions"),
                    rule("mpnet.embeddings.LayerNorm", "embedding.norm"),
                    rule("mpnet.encoder.relative_attention_bias", "encoder.relative_bias"),
                    rule("mpnet.encoder.layer.{}.attention.attn.q", "layers.{}.attention.q"),
                    rule("mpnet.encoder.layer.{}.attention.attn.k", "layers.{}.attention.k"),
                    rule("mpnet.encoder.layer.{}.attention.attn.v", "layers.{}.attention.v"),
                    rule("mpnet.encoder.layer.{}.attention.attn.o", "layers.{}.attention.out"),
                    rule("mpnet.encoder.layer.{}.attention.LayerNorm", "layers.{}.norm1"),
                    rule("mpnet.encoder.layer.{}.intermediate.dense", "layers.{}.mlp.up"),
                    rule("mpnet.encoder.layer.{}.output.dense", "layers.{}.mlp.down"),
                    rule("mpnet.encoder.layer.{}.output.LayerNorm", "layers.{}.norm2"),
                    rule("lm_head.dense", "head.dense"), rule("lm_head.layer_norm", "head.norm"),
                    rule("lm_head", "head"), rule("classifier.dense", "head.pooler"),
                    rule("classifier.out_proj", "head.classes"), rule("classifier", "head.tags"),
                    rule("qa_outputs", "head.span")},
          .needless = is_needless_in_mpnet};
}

}  // namespace

const Family kMpnet{"mpnet", "MPNetForMaskedLM", read_mpnet, write_mpnet, mpnet_names};

}  // namespace stoa::model::huggingface
