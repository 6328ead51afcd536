// MegatronBERT (1909.08053): BERT with norms before the branches, none after the embeddings, and one at the
// end.
#include "model/huggingface/encoder_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_megatron_bert(JsonKeys& keys, ModelConfig& c) {
  read_encoder_keys(keys, c, {29056, 512, 2, 1e-12, 1024, 16, 4096, 24});
  read_encoder_head(keys, c, "MegatronBert", true);
  c.bert.pre_norm = true;
  c.bert.embedding_norm = false;
}

void write_megatron_bert(const ModelSpec& spec, Json& json) {
  write_encoder_keys(spec, json, "MegatronBert");
}

// Buffers; the decoder, which is tied; the pooler and heads of a model that does not use them.
bool is_needless_in_megatron_bert(std::string_view name, const ModelConfig& c) {
  const bool pooled = c.judges_sentences() || c.task.type == Task::kSequenceClassification;
  return name == "embeddings.position_ids" || name.starts_with("cls.predictions.decoder.") ||
         (!pooled && name.starts_with("pooler.")) ||
         (!c.judges_sentences() && name.starts_with("cls.seq_relationship.")) ||
         ((!c.bert.lm_head || c.task.labelled()) && name.starts_with("cls.")) ||
         is_of_other_head(name, c.task);
}

NameMap megatron_bert_names() {
  const auto rule = [](const char* file, const char* part) {
    return NameRule{.file = file, .parts = {part}};
  };
  return {.prefix = "bert.",
          .rules = {rule("bert.embeddings.word_embeddings", "embedding.tokens"),
                    rule("bert.embeddings.position_embeddings", "embedding.positions"),
                    rule("bert.embeddings.token_type_embeddings", "embedding.types"),
                    rule("bert.encoder.layer.{}.attention.ln", "layers.{}.norm1"),
                    rule("bert.encoder.layer.{}.attention.self.query", "layers.{}.attention.q"),
                    rule("bert.encoder.layer.{}.attention.self.key", "layers.{}.attention.k"),
                    rule("bert.encoder.layer.{}.attention.self.value", "layers.{}.attention.v"),
                    rule("bert.encoder.layer.{}.attention.output.dense", "layers.{}.attention.out"),
                    rule("bert.encoder.layer.{}.ln", "layers.{}.norm2"),
                    rule("bert.encoder.layer.{}.intermediate.dense", "layers.{}.mlp.up"),
                    rule("bert.encoder.layer.{}.output.dense", "layers.{}.mlp.down"),
                    rule("bert.encoder.ln", "final_norm"),
                    rule("cls.predictions.transform.dense", "head.dense"),
                    rule("cls.predictions.transform.LayerNorm", "head.norm"),
                    rule("cls.predictions", "head"),
                    rule("bert.pooler.dense", "head.pooler"),
                    rule("cls.seq_relationship", "head.sentence"),
                    rule("classifier", "head.classes"),
                    rule("classifier", "head.tags"),
                    rule("qa_outputs", "head.span")},
          .needless = is_needless_in_megatron_bert};
}

}  // namespace

const Family kMegatronBert{"megatron-bert", "MegatronBertForPreTraining", read_megatron_bert,
                           write_megatron_bert, megatron_bert_names};

}  // namespace stoa::model::huggingface
