// Configuration of encoders (kind bert: BERT, RoBERTa, ModernBERT) in addition to the keys of every model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/schema.h"

namespace stoa::model {

enum class Activation;  // model/config.h

// Activation of the pooler, which transforms the first token for the head of sequence_classification.
enum class PoolerActivation { kTanh, kRelu, kGelu };
std::span<const config::EnumName<PoolerActivation>> enum_names(PoolerActivation);

struct BertConfig {
  std::int64_t num_token_types = 2;  // rows of the token-type table; 0: no such table
  bool lm_head = true;               // false: a bare encoder, usable only for embeddings
  bool binary_head = true;           // whether the second segment follows the first: also trained
  std::int64_t first_position = 0;   // row of position 0 in the table: 2 in RoBERTa
  bool pre_norm = false;             // norm before each branch but the first attention, and one at the end
  bool embedding_norm = true;        // false: none there, and one before the first attention (Megatron-LM)
  // A trained bias of scores by distance, shared by all layers, in addition to other positions; null: none.
  std::optional<std::int64_t> relative_attention_num_buckets;
  bool classifier_bias = true;  // bias of the head's dense layer
  // null: that of the layers; RoBERTa's: gelu, whatever the layers have.
  std::optional<Activation> head_activation;
  PoolerActivation pooler_activation = PoolerActivation::kTanh;
};

void declare_bert(config::Section<BertConfig>& s);

}  // namespace stoa::model
