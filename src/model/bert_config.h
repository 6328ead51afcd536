// What encoders (kind bert: BERT and RoBERTa) have beyond the keys of every model.
#pragma once

#include <cstdint>

#include "config/schema.h"

namespace stoa::model {

struct BertConfig {
  std::int64_t num_token_types = 2;  // rows of the table of token types
  bool lm_head = true;               // false: a bare encoder, which can but embed
  bool binary_head = true;           // the sentence question beside the masked tokens
  std::int64_t first_position = 0;   // row of position 0 in the table: 2 in RoBERTa
};

void declare_bert(config::Section<BertConfig>& s);

}  // namespace stoa::model
