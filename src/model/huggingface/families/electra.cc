// ELECTRA (2003.10555): BERT's encoder, trained to tell replaced tokens. Of its heads those of labelled tasks
// are read; embeddings are as wide as the layers (base and large).
#include "model/huggingface/encoder_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_electra(JsonKeys& keys, ModelConfig& c) {
  c.kind = ModelKind::kBert;
  c.vocab_size = keys.integer("vocab_size", 1).value_or(30522);
  c.hidden_size = keys.integer("hidden_size", 1).value_or(256);
  const std::int64_t width = keys.integer("embedding_size", 1).value_or(128);
  require<ConfigError>(
      width == c.hidden_size,
      "config.json: embedding_size {} with hidden_size {} (electra-small, generators) is not supported, "
      "only embeddings as wide as the layers",
      width, c.hidden_size);
  c.num_layers = keys.integer("num_hidden_layers", 1).value_or(12);
  c.num_attention_heads = keys.integer("num_attention_heads", 1).value_or(4);
  c.ffn_hidden_size = keys.integer("intermediate_size", 1).value_or(1024);
  c.max_position_embeddings = keys.integer("max_position_embeddings", 1).value_or(512);
  c.bert.num_token_types = keys.integer("type_vocab_size", 1).value_or(2);
  c.position_embedding_type = PositionEmbedding::kLearnedAbsolute;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_eps").value_or(1e-12);
  c.activation = plain_activation(keys.text("hidden_act").value_or("gelu"));
  c.bias = BiasKind::kAll;
  c.share_embeddings_and_output_weights = true;
  c.hidden_dropout = c.embedding_dropout = keys.number("hidden_dropout_prob").value_or(0.1);
  c.attention_dropout = keys.number("attention_probs_dropout_prob").value_or(0.1);
  const std::string positions = keys.text("position_embedding_type").value_or("absolute");
  require<ConfigError>(positions == "absolute",
                       "config.json: position_embedding_type '{}' is not supported, expected absolute",
                       positions);
  keys.only("tie_word_embeddings", true);
  keys.only("is_decoder", false);
  keys.only("add_cross_attention", false);
  keys.ignore("classifier_dropout");
  keys.ignore("summary_last_dropout");
  // The discriminator's question is asked in pre-training alone: what is left is the encoder.
  const auto all = keys.texts("architectures").value_or(std::vector<std::string>());
  if (!all.empty() && all.front() == "ElectraForPreTraining")
    c.bert.lm_head = c.bert.binary_head = false;
  else
    read_encoder_head(keys, c, "Electra", false);
  c.bert.pooler_activation = PoolerActivation::kGelu;
  require<ConfigError>(
      !c.bert.lm_head || c.bert.labelled() || c.activation == Activation::kGelu,
      "config.json: hidden_act of ElectraForMaskedLM is {}, expected gelu, which its head has",
      activation_name(c.activation));
}

void write_electra(const Gpt& gpt, Json& json) {
  const ModelConfig& c = gpt.config;
  write_encoder_head(c.bert, json, "Electra");
  json["vocab_size"] = gpt.vocabulary;
  json["hidden_size"] = json["embedding_size"] = c.hidden_size;
  json["num_hidden_layers"] = c.num_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["intermediate_size"] = c.ffn_size();
  json["hidden_act"] = activation_name(c.activation);
  json["layer_norm_eps"] = c.layernorm_epsilon;
  json["max_position_embeddings"] = c.max_positions();
  json["type_vocab_size"] = c.bert.num_token_types;
  json["hidden_dropout_prob"] = c.hidden_dropout;
  json["attention_probs_dropout_prob"] = c.attention_dropout;
  json["position_embedding_type"] = "absolute";
}

// Buffers; heads that the model does not use.
bool is_needless_in_electra(std::string_view name, const ModelConfig& c) {
  const bool words = c.bert.lm_head && !c.bert.labelled();
  return name == "embeddings.position_ids" || name.starts_with("discriminator_predictions.") ||
         name == "generator_lm_head.weight" || (!words && name.starts_with("generator_")) ||
         is_of_other_head(name, c.bert);
}

NameMap electra_names() {
  const auto rule = [](const char* file, const char* part) {
    return NameRule{.file = file, .parts = {part}};
  };
  return {.prefix = "electra.",
          .rules = {rule("electra.embeddings.word_embeddings", "embedding.tokens"),
                    rule("electra.embeddings.position_embeddings", "embedding.positions"),
                    rule("electra.embeddings.token_type_embeddings", "embedding.types"),
                    rule("electra.embeddings.LayerNorm", "embedding.norm"),
                    rule("electra.encoder.layer.{}.attention.self.query", "layers.{}.attention.q"),
                    rule("electra.encoder.layer.{}.attention.self.key", "layers.{}.attention.k"),
                    rule("electra.encoder.layer.{}.attention.self.value", "layers.{}.attention.v"),
                    rule("electra.encoder.layer.{}.attention.output.dense", "layers.{}.attention.out"),
                    rule("electra.encoder.layer.{}.attention.output.LayerNorm", "layers.{}.norm1"),
                    rule("electra.encoder.layer.{}.intermediate.dense", "layers.{}.mlp.up"),
                    rule("electra.encoder.layer.{}.output.dense", "layers.{}.mlp.down"),
                    rule("electra.encoder.layer.{}.output.LayerNorm", "layers.{}.norm2"),
                    rule("generator_predictions.dense", "head.dense"),
                    rule("generator_predictions.LayerNorm", "head.norm"), rule("generator_lm_head", "head"),
                    rule("classifier.dense", "head.pooler"), rule("classifier.out_proj", "head.classes"),
                    rule("classifier", "head.tags"), rule("qa_outputs", "head.span")},
          .needless = is_needless_in_electra};
}

}  // namespace

const Family kElectra{"electra", "ElectraForMaskedLM", read_electra, write_electra, electra_names};

}  // namespace stoa::model::huggingface
