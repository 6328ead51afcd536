// Keys and names of experts that several families share.
#pragma once

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

// What the families call differently is read under every name that either version of transformers writes.
void read_experts(JsonKeys& keys, ModelConfig& config, std::int64_t default_experts,
                  std::int64_t default_chosen);
void write_experts(const ModelConfig& config, Json& json);
// Layers without experts, as a list of numbers.
Json dense_layers(const ModelConfig& config);

}  // namespace stoa::model::huggingface
