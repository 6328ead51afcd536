// Configuration of layers of linear attention among those of softmax attention (Qwen3-Next): the keys of
// Megatron under `model`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/schema.h"

namespace stoa::model {

struct LinearAttentionConfig {
  std::optional<std::int64_t> linear_attention_freq;  // every n-th layer has softmax attention; null: all
  std::vector<std::int64_t> linear_attention_layers;  // those of linear attention, in place of that
  std::int64_t linear_num_key_heads = 16;
  std::int64_t linear_num_value_heads = 32;
  std::int64_t linear_key_head_dim = 128, linear_value_head_dim = 128;
  std::int64_t linear_conv_kernel_dim = 4;

  bool is_linear(std::int64_t layer) const;
  bool any() const { return linear_attention_freq || !linear_attention_layers.empty(); }
};

void declare_linear_attention(config::Section<LinearAttentionConfig>& s);
// ConfigError where numbers contradict each other.
void validate(const LinearAttentionConfig& c, std::int64_t layers);

}  // namespace stoa::model
