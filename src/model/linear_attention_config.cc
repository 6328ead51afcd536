#include "model/linear_attention_config.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::model {

bool LinearAttentionConfig::is_linear(std::int64_t layer) const {
  if (linear_attention_freq) return (layer + 1) % *linear_attention_freq != 0;
  return std::find(linear_attention_layers.begin(), linear_attention_layers.end(), layer) !=
         linear_attention_layers.end();
}

void declare_linear_attention(config::Section<LinearAttentionConfig>& s) {
  using C = LinearAttentionConfig;
  constexpr double kMost = 65536;
  s.field("linear_attention_freq", &C::linear_attention_freq)
      .range(2, 10'000)
      .help(
          "Every n-th layer has softmax attention, the others linear attention by the gated delta rule "
          "(Qwen3-Next: "
          "4). null: all have softmax attention.");
  s.field("linear_attention_layers", &C::linear_attention_layers)
      .range(0, 10'000)
      .help("Layers of linear attention, numbered from 0, instead of linear_attention_freq.");
  s.field("linear_num_key_heads", &C::linear_num_key_heads)
      .range(1, kMost)
      .help(
          "Heads of queries and keys in linear attention. This key and the following four are used only with "
          "it.");
  s.field("linear_num_value_heads", &C::linear_num_value_heads)
      .range(1, kMost)
      .help("Heads of values, each with its own state; a multiple of linear_num_key_heads.");
  s.field("linear_key_head_dim", &C::linear_key_head_dim).range(1, kMost).help("Width of a head of keys.");
  s.field("linear_value_head_dim", &C::linear_value_head_dim)
      .range(1, kMost)
      .help("Width of a head of values.");
  s.field("linear_conv_kernel_dim", &C::linear_conv_kernel_dim)
      .range(1, 64)
      .unit("tokens")
      .help("Width in tokens of the convolution before linear attention, including the token itself.");
}

void validate(const LinearAttentionConfig& c, std::int64_t layers) {
  require<ConfigError>(!c.linear_attention_freq || c.linear_attention_layers.empty(),
                       "linear_attention_freq and linear_attention_layers both select the layers with linear "
                       "attention: leave out one");
  for (const std::int64_t layer : c.linear_attention_layers)
    require<ConfigError>(layer < layers, "linear_attention_layers names layer {} of {}: expected 0 to {}",
                         layer, layers, layers - 1);
  if (!c.any()) return;
  require<ConfigError>(c.linear_num_value_heads % c.linear_num_key_heads == 0,
                       "linear_num_value_heads {} is not divisible by linear_num_key_heads {}",
                       c.linear_num_value_heads, c.linear_num_key_heads);
}

}  // namespace stoa::model
