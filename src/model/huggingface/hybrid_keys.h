// What the families share whose layers have linear attention by the gated delta rule, or softmax attention
// with a gate: Qwen3-Next and the text models of Qwen3.5.
#pragma once

#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {

// All but experts.
void read_hybrid_keys(JsonKeys& keys, ModelConfig& config, const LlamaDefaults& defaults);
void write_hybrid_keys(const ModelSpec& spec, Json& json);
// Widths of experts and of the gated one that all tokens share; `experts`, `chosen`: how many by default.
void read_hybrid_experts(JsonKeys& keys, ModelConfig& config, std::int64_t experts, std::int64_t chosen);
void write_hybrid_experts(const ModelConfig& config, Json& json);
// Without the projections of linear attention, which every family arranges in its own way. Layers that
// predict further tokens (mtp.*) are not read.
NameMap hybrid_names(const std::vector<NameRule>& projections);

}  // namespace stoa::model::huggingface
