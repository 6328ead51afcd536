// DistilBERT (1910.01108): BERT without token types and sentence head; classification heads have a ReLU.
#include "model/huggingface/encoder_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_distilbert(JsonKeys& keys, ModelConfig& c) {
  const auto either = [&](const char* name, const char* other, std::int64_t fallback) {
    const auto value = keys.integer(name, 1), same = keys.integer(other, 1);
    return value ? *value : same.value_or(fallback);
  };
  c.kind = ModelKind::kBert;
  c.vocab_size = keys.integer("vocab_size", 1).value_or(30522);
  c.hidden_size = either("dim", "hidden_size", 768);
  c.num_layers = either("n_layers", "num_hidden_layers", 6);
  c.num_attention_heads = either("n_heads", "num_attention_heads", 12);
  c.ffn_hidden_size = keys.integer("hidden_dim", 1).value_or(4 * 768);
  c.max_position_embeddings = keys.integer("max_position_embeddings", 1).value_or(512);
  c.bert.num_token_types = 0;
  c.position_embedding_type = PositionEmbedding::kLearnedAbsolute;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = 1e-12;
  c.activation = plain_activation(keys.text("activation").value_or("gelu"));
  c.bias = BiasKind::kAll;
  c.share_embeddings_and_output_weights = true;
  c.hidden_dropout = c.embedding_dropout = keys.number("dropout").value_or(0.1);
  c.attention_dropout = keys.number("attention_dropout").value_or(0.1);
  keys.only("tie_word_embeddings", true);
  for (const char* key :
       {"sinusoidal_pos_embds", "tie_weights_", "output_past", "qa_dropout", "classifier_dropout"})
    keys.ignore(key);
  read_encoder_head(keys, c, "DistilBert", false);
  c.bert.pooler_activation = PoolerActivation::kRelu;
  const double dropout = keys.number("seq_classif_dropout").value_or(0.2);
  if (c.task.classifies())
    c.task.classifier_dropout = c.task.type == Task::kSequenceClassification ? dropout : c.hidden_dropout;
}

void write_distilbert(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_encoder_head(c, json, "DistilBert");
  json.erase("classifier_dropout");
  json["vocab_size"] = spec.vocabulary;
  json["dim"] = c.hidden_size;
  json["n_layers"] = c.num_layers;
  json["n_heads"] = c.num_attention_heads;
  json["hidden_dim"] = c.ffn_size();
  json["max_position_embeddings"] = c.max_positions();
  json["activation"] = activation_name(c.activation);
  json["dropout"] = c.hidden_dropout;
  json["attention_dropout"] = c.attention_dropout;
  json["sinusoidal_pos_embds"] = false;
  json["seq_classif_dropout"] = c.task.classifier_dropout.value_or(0.2);
}

// Buffers; the projection, which is tied; heads that the model does not use.
bool is_needless_in_distilbert(std::string_view name, const ModelConfig& c) {
  const bool words = c.bert.lm_head && !c.task.labelled();
  return name == "embeddings.position_ids" || name == "vocab_projector.weight" ||
         (!words && name.starts_with("vocab_")) ||
         (c.task.type != Task::kSequenceClassification && name.starts_with("pre_classifier.")) ||
         is_of_other_head(name, c.task);
}

NameMap distilbert_names() {
  const auto layer = [](const char* file, const char* part) {
    return NameRule{.file = file, .parts = {part}};
  };
  return {.prefix = "distilbert.",
          .rules = {layer("distilbert.embeddings.word_embeddings", "embedding.tokens"),
                    layer("distilbert.embeddings.position_embeddings", "embedding.positions"),
                    layer("distilbert.embeddings.LayerNorm", "embedding.norm"),
                    layer("distilbert.transformer.layer.{}.attention.q_lin", "layers.{}.attention.q"),
                    layer("distilbert.transformer.layer.{}.attention.k_lin", "layers.{}.attention.k"),
                    layer("distilbert.transformer.layer.{}.attention.v_lin", "layers.{}.attention.v"),
                    layer("distilbert.transformer.layer.{}.attention.out_lin", "layers.{}.attention.out"),
                    layer("distilbert.transformer.layer.{}.sa_layer_norm", "layers.{}.norm1"),
                    layer("distilbert.transformer.layer.{}.ffn.lin1", "layers.{}.mlp.up"),
                    layer("distilbert.transformer.layer.{}.ffn.lin2", "layers.{}.mlp.down"),
                    layer("distilbert.transformer.layer.{}.output_layer_norm", "layers.{}.norm2"),
                    layer("vocab_transform", "head.dense"), layer("vocab_layer_norm", "head.norm"),
                    layer("vocab_projector", "head"), layer("pre_classifier", "head.pooler"),
                    layer("classifier", "head.classes"), layer("classifier", "head.tags"),
                    layer("qa_outputs", "head.span")},
          .needless = is_needless_in_distilbert};
}

}  // namespace

const Family kDistilbert{"distilbert", "DistilBertForMaskedLM", read_distilbert, write_distilbert,
                         distilbert_names};

}  // namespace stoa::model::huggingface
