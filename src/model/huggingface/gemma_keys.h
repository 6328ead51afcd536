// What Gemma 2 and 3 share.
#pragma once

#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {

// All but positions, windows and caps.
void read_gemma_keys(JsonKeys& keys, ModelConfig& config, const LlamaDefaults& defaults);
void write_gemma_keys(const ModelSpec& spec, Json& json);
NameMap gemma_names();

}  // namespace stoa::model::huggingface
