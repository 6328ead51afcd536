// Configuration of encoders (kind bert: BERT, RoBERTa, ModernBERT) in addition to the keys of every model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/schema.h"

namespace stoa::model {

// The task of an encoder's head. The last three are fine-tuned on labelled text (docs/encoders.md,
// "Fine-tuning").
enum class BertTask { kMaskedLm, kSequenceClassification, kTokenClassification, kQuestionAnswering };
std::span<const config::EnumName<BertTask>> enum_names(BertTask);
// Activation of the pooler, which transforms the first token for the head of sequence_classification.
enum class PoolerActivation { kTanh, kRelu, kGelu };
std::span<const config::EnumName<PoolerActivation>> enum_names(PoolerActivation);

struct BertConfig {
  std::int64_t num_token_types = 2;  // rows of the token-type table; 0: no such table
  bool lm_head = true;               // false: a bare encoder, usable only for embeddings
  bool binary_head = true;           // whether the second segment follows the first: also trained
  std::int64_t first_position = 0;   // row of position 0 in the table: 2 in RoBERTa
  bool pre_norm = false;             // norm before each branch but the first attention, and one at the end
  // A trained bias of scores by distance, shared by all layers, in addition to other positions; null: none.
  std::optional<std::int64_t> relative_attention_num_buckets;
  bool classifier_bias = true;  // bias of the head's dense layer
  BertTask task = BertTask::kMaskedLm;
  std::vector<std::string> labels;           // names of the classes of a classification, in order
  std::optional<double> classifier_dropout;  // null: hidden_dropout
  PoolerActivation pooler_activation = PoolerActivation::kTanh;

  bool labelled() const { return task != BertTask::kMaskedLm; }
  bool classifies() const {  // labels are the names of the classes
    return task == BertTask::kSequenceClassification || task == BertTask::kTokenClassification;
  }
  // A row has a single label, stored at its first token; otherwise every token has its own.
  bool one_label_per_row() const {
    return task == BertTask::kSequenceClassification || task == BertTask::kQuestionAnswering;
  }
  // One number per row instead of classes: supported for prediction, not for training.
  bool regression() const { return task == BertTask::kSequenceClassification && labels.size() == 1; }
  bool sentence_question() const { return binary_head && !labelled(); }
  // Columns of the head's logits; 0 if they are over the vocabulary.
  std::int64_t classes() const;
};

void declare_bert(config::Section<BertConfig>& s);

}  // namespace stoa::model
