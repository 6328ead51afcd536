// Keys and names that the architectures share.
#pragma once

#include "model/gguf/architecture.h"
#include "model/huggingface/json_keys.h"

namespace stoa::model::gguf {

using huggingface::JsonKeys;
using huggingface::NameMap;
using huggingface::NameRule;

// Sizes, heads, positions, tied or not, biases: by the metadata and the tensors that the file holds.
void read_sizes(JsonKeys& keys, ModelConfig& config);
void write_sizes(const ModelSpec& spec, Json& json);
// And RMSNorm with its epsilon, the gated activation, rotary positions with their scaling.
void read_llama_like(JsonKeys& keys, ModelConfig& config);
void write_llama_like(const ModelSpec& spec, Json& json);
void read_layer_norm(JsonKeys& keys, ModelConfig& config);
void read_rotary(JsonKeys& keys, ModelConfig& config, double default_base = 10000);
void write_rotary(const ModelConfig& config, Json& json);
// attention.sliding_window of every layer, or but in every `period`-th one.
void read_every_window(JsonKeys& keys, ModelConfig& config, std::optional<std::int64_t> period = {});
// Experts in every layer: expert_count, expert_used_count.
void read_expert_counts(JsonKeys& keys, ModelConfig& config);
void write_expert_counts(const ModelConfig& config, Json& json);

// token_embd, output_norm, output, blk.{}.attn_q …; `pairs`: rows of q and k that rotate together stand side
// by side.
NameMap block_names(bool pairs = false);
// Names with one tensor for q, k and v.
NameRule fused_qkv();
std::vector<NameRule> packed_experts();

}  // namespace stoa::model::gguf
