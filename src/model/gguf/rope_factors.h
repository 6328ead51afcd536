// How GGUF says that rotary frequencies are scaled: keys below rope.scaling, and tensors of the numbers by
// which the frequencies are divided (rope_freqs; rope_factors_short and rope_factors_long).
#pragma once

#include <vector>

#include "model/gguf/keys.h"

namespace stoa::model::gguf {

// Values of these tensors are in the metadata under their names.
inline constexpr const char* kRopeFactors[] = {"rope_freqs", "rope_factors_short", "rope_factors_long"};

void read_rope_scaling(JsonKeys& keys, ModelConfig& config);
// ConfigError: a scaling that GGUF has no words for.
void write_rope_scaling(const ModelConfig& config, Json& json);

}  // namespace stoa::model::gguf
