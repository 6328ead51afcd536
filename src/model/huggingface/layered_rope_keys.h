// Rotary parameters of models whose layers with a window have a base of their own (Gemma 3, OLMo 3):
// rope_theta, rope_scaling and rope_local_base_freq of transformers 4.x; 5.x nests them by kind of layer.
#pragma once

#include "model/huggingface/rope_keys.h"

namespace stoa::model::huggingface {

// After the window's keys. The bases are those of keys that a file leaves out.
void read_layered_rope(JsonKeys& keys, ModelConfig& config, double base, double local_base);
void write_layered_rope(const ModelConfig& config, Json& json);

}  // namespace stoa::model::huggingface
