#include "model/bert_architecture.h"

#include "nn/class_head.h"
#include "nn/masked_lm_head.h"
#include "nn/post_norm_block.h"
#include "nn/span_head.h"

namespace stoa::model {

std::unique_ptr<nn::Embedding> BertArchitecture::embedding() const {
  const ModelConfig& c = gpt_.config;
  nn::EmbeddingOptions o = embedding_options(gpt_, options_.precision, options_.place);
  o.positions = c.max_positions() + c.bert.first_position;
  o.first_position = c.bert.first_position;
  o.token_types = c.bert.num_token_types;
  o.norm = norm_options(c);
  return std::make_unique<nn::Embedding>(o);
}

std::unique_ptr<nn::Block> BertArchitecture::block(std::int64_t layer) const {
  const nn::TransformerBlockOptions o =
      block_options(gpt_, layer, options_.precision, options_.place, options_.experts);
  nn::PostNormBlockOptions out{.name = o.name,
                               .norm = o.norm,
                               .attention = o.attention,
                               .mlp = o.mlp,
                               .dropout = o.dropout,
                               .precision = o.precision};
  out.attention.causal = false;
  return std::make_unique<nn::PostNormBlock>(out);
}

std::unique_ptr<nn::Head> BertArchitecture::class_head() const {
  const ModelConfig& c = gpt_.config;
  if (c.bert.task == BertTask::kQuestionAnswering)
    return std::make_unique<nn::SpanHead>(nn::SpanHeadOptions{.hidden = c.hidden_size,
                                                              .deviation = c.init_method_std,
                                                              .precision = options_.precision,
                                                              .place = options_.place});
  const bool pooled = c.bert.task == BertTask::kSequenceClassification;
  return std::make_unique<nn::ClassHead>(nn::ClassHeadOptions{
      .name = pooled ? "head.classes" : "head.tags",
      .hidden = c.hidden_size,
      .classes = c.bert.classes(),
      .pooled = pooled,
      .deviation = c.init_method_std,
      .dropout = static_cast<float>(c.bert.classifier_dropout.value_or(c.hidden_dropout)),
      .precision = options_.precision,
      .place = options_.place,
      .smoothing = c.label_smoothing,
      .z_weight = c.z_loss_coeff});
}

std::unique_ptr<nn::Head> BertArchitecture::head() const {
  if (gpt_.config.bert.labelled()) return class_head();
  if (!gpt_.config.bert.lm_head) return nullptr;
  nn::LmHeadOptions o = head_options(gpt_, options_.precision, options_.place);
  o.output.bias = true;
  // RoBERTa's head has the exact form whatever the layers have.
  const bool roberta = gpt_.config.bert.first_position > 0;
  return std::make_unique<nn::MaskedLmHead>(nn::MaskedLmHeadOptions{
      .output = o.output,
      .norm = o.norm,
      .activation = roberta ? ops::ActivationKind::kGelu : activation_kind(gpt_.config.activation),
      .binary = gpt_.config.bert.sentence_question()});
}

}  // namespace stoa::model
