// ELECTRA (2003.10555): BERT's encoder, trained to detect replaced tokens. The heads of supervised tasks are
// read; embeddings must be as wide as the layers (base and large).
#include "model/huggingface/encoder_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_electra(JsonKeys& keys, ModelConfig& c) {
  read_encoder_keys(keys, c, {30522, 512, 2, 1e-12, 256, 4, 1024});
  const std::int64_t width = keys.integer("embedding_size", 1).value_or(128);
  require<ConfigError>(
      width == c.hidden_size,
      "config.json: embedding_size {} with hidden_size {} (electra-small, generators) is not supported, "
      "only embeddings as wide as the layers",
      width, c.hidden_size);
  keys.ignore("summary_last_dropout");
  // The discriminator's question is asked in pre-training alone: what is left is the encoder.
  const auto all = keys.texts("architectures").value_or(std::vector<std::string>());
  if (!all.empty() && all.front() == "ElectraForPreTraining")
    c.bert.lm_head = c.bert.binary_head = false;
  else
    read_encoder_head(keys, c, "Electra", false);
  c.bert.pooler_activation = PoolerActivation::kGelu;
  require<ConfigError>(
      !c.bert.lm_head || c.task.labelled() || c.activation == Activation::kGelu,
      "config.json: hidden_act of ElectraForMaskedLM is {}, expected gelu, which its head has",
      activation_name(c.activation));
}

void write_electra(const ModelSpec& spec, Json& json) {
  write_encoder_keys(spec, json, "Electra");
  json["embedding_size"] = spec.config.hidden_size;
}

// Buffers; heads that the model does not use.
bool is_needless_in_electra(std::string_view name, const ModelConfig& c) {
  const bool words = c.bert.lm_head && !c.task.labelled();
  return name == "embeddings.position_ids" || name.starts_with("discriminator_predictions.") ||
         name == "generator_lm_head.weight" || (!words && name.starts_with("generator_")) ||
         is_of_other_head(name, c.task);
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
