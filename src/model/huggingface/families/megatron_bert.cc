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

NameMap megatron_bert_names() {
  const auto rule = [](const char* file, const char* part) {
    return NameRule{.file = file, .parts = {part}};
  };
  NameMap out{.prefix = "bert.",
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
                        rule("bert.encoder.ln", "final_norm")},
              .needless = is_needless_in_bert};
  add_bert_heads(out);
  return out;
}

}  // namespace

const Family kMegatronBert{"megatron-bert", "MegatronBertForPreTraining", read_megatron_bert,
                           write_megatron_bert, megatron_bert_names};

}  // namespace stoa::model::huggingface
