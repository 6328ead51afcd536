// What encoders (kind bert: BERT and RoBERTa) have beyond the keys of every model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/schema.h"

namespace stoa::model {

// What the head of an encoder is asked. The last three are trained from labelled text
// (docs/encoders.md, "Fine-tuning").
enum class BertTask { kMaskedLm, kSequenceClassification, kTokenClassification, kQuestionAnswering };
std::span<const config::EnumName<BertTask>> enum_names(BertTask);
// Of the pooled first token, in the head of sequence_classification.
enum class PoolerActivation { kTanh, kRelu, kGelu };
std::span<const config::EnumName<PoolerActivation>> enum_names(PoolerActivation);

struct BertConfig {
  std::int64_t num_token_types = 2;  // rows of the table of token types; 0: there is none
  bool lm_head = true;               // false: a bare encoder, which can but embed
  bool binary_head = true;           // the sentence question beside the masked tokens
  std::int64_t first_position = 0;   // row of position 0 in the table: 2 in RoBERTa
  bool pre_norm = false;  // norms before the branches, none before the first attention, one at the end
  // Beside other positions, a trained bias of scores by distance, the same in all layers; null: none.
  std::optional<std::int64_t> relative_attention_num_buckets;
  bool classifier_bias = true;  // of the dense layer of the head
  BertTask task = BertTask::kMaskedLm;
  std::vector<std::string> labels;           // names of the classes of a classification, in order
  std::optional<double> classifier_dropout;  // null: hidden_dropout
  PoolerActivation pooler_activation = PoolerActivation::kTanh;

  bool labelled() const { return task != BertTask::kMaskedLm; }
  bool classifies() const {  // labels name what the head tells apart
    return task == BertTask::kSequenceClassification || task == BertTask::kTokenClassification;
  }
  // A row has one label, told at its first token; otherwise tokens have labels of their own.
  bool one_label_per_row() const {
    return task == BertTask::kSequenceClassification || task == BertTask::kQuestionAnswering;
  }
  // One number per row instead of classes: it is predicted with, not trained.
  bool regression() const { return task == BertTask::kSequenceClassification && labels.size() == 1; }
  bool sentence_question() const { return binary_head && !labelled(); }
  // Columns of the head's logits; 0 where they are words.
  std::int64_t classes() const;
};

void declare_bert(config::Section<BertConfig>& s);

}  // namespace stoa::model
