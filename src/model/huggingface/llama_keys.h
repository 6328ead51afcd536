// What llama and its descendants share: keys, names, spellings of activations. Differences are in each
// family's own file.
#pragma once

#include "model/huggingface/rope_keys.h"

namespace stoa::model::huggingface {

// Values of keys that a file may leave out.
struct LlamaDefaults {
  std::int64_t vocabulary = 32000;
  std::int64_t hidden = 4096, layers = 32, heads = 32;
  std::int64_t ffn = 11008;
  std::optional<std::int64_t> groups = {};     // none: as many as heads
  std::optional<std::int64_t> head_size = {};  // none: hidden_size / num_attention_heads
  std::int64_t positions = 2048;
  double epsilon = 1e-6;
  RopeDefaults rope = {};
};

// Sizes, RMSNorm, rotary positions without their parameters, no biases.
void read_llama_sizes(JsonKeys& keys, ModelConfig& config, const LlamaDefaults& defaults);
void write_llama_sizes(const ModelSpec& spec, Json& json);
// And the gated activation, rotary parameters, tied or not.
void read_llama_keys(JsonKeys& keys, ModelConfig& config, const LlamaDefaults& defaults);
void write_llama_keys(const ModelSpec& spec, Json& json);
NameMap llama_names();
// Norms of files that hold their weights minus 1.
void zero_center_norms(NameMap& names);
// transformers' check of llama and others, which give head_dim and do not need it.
bool heads_do_not_divide(const ModelConfig& config);

// What bias and its exceptions say of a model whose linear layers have these.
void set_biases(ModelConfig& config, bool qkv, bool attention_output, bool mlp);
// attention_bias: of q, k, v and the output projection; the MLP has none.
void read_attention_bias(JsonKeys& keys, ModelConfig& config, bool fallback = false);
// And mlp_bias.
void read_attention_and_mlp_bias(JsonKeys& keys, ModelConfig& config);
void write_attention_and_mlp_bias(const ModelConfig& config, Json& json);

// hidden_act of a gated layer, activation_function of a plain one: ConfigError names the known ones.
Activation gated_activation(const std::string& name);
Activation plain_activation(const std::string& name);
const char* activation_name(Activation activation);

// What Gemma 2 and 3 share.

// All but positions, windows and caps.
void read_gemma_keys(JsonKeys& keys, ModelConfig& config, const LlamaDefaults& defaults);
void write_gemma_keys(const ModelSpec& spec, Json& json);
NameMap gemma_names();

}  // namespace stoa::model::huggingface
