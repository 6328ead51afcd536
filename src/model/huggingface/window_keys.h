// Which layers have a sliding window: layer_types, and the keys that some families use instead.
#pragma once

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

// The window from layer `first` on, or none; layer_types, where the file has it, counts instead of `first`.
void read_window(JsonKeys& keys, ModelConfig& config, std::optional<std::int64_t> window, std::int64_t first);
void write_layer_types(const ModelConfig& config, Json& json);

// use_sliding_window and max_window_layers of the Qwen families.
void read_qwen_window(JsonKeys& keys, ModelConfig& config);
void write_qwen_window(const ModelConfig& config, Json& json);

}  // namespace stoa::model::huggingface
