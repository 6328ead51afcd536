// What encoder-decoders (kind t5: T5, mT5 and NeMo's variants) have beyond the keys of every model.
#pragma once

#include <cstdint>
#include <optional>

#include "config/schema.h"

namespace stoa::model {

struct T5Config {
  std::optional<std::int64_t> encoder_layers;        // of num_layers; null: half of them
  std::int64_t seq_length_dec = 128;                 // tokens of the target of a sample
  std::int64_t relative_attention_num_buckets = 32;  // with position_embedding_type relative
  std::int64_t relative_attention_max_distance = 128;
  bool relative_bias_per_layer =
      false;                           // each layer has a table of its own (umT5); false: a stack shares one
  bool scale_attention = false;        // scores are divided by sqrt(head size)
  bool scale_decoder_outputs = false;  // multiplied by hidden_size^-0.5 before the head
};

void declare_t5(config::Section<T5Config>& s);

}  // namespace stoa::model
