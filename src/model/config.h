// Configuration of a model: the keys of NeMo and Megatron under `model`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/schema.h"
#include "model/bert_config.h"
#include "model/fp8_config.h"
#include "model/latent_config.h"
#include "model/linear_attention_config.h"
#include "model/moe_config.h"
#include "model/mup_config.h"
#include "model/offload_config.h"
#include "model/peft_config.h"
#include "model/t5_config.h"
#include "model/task_config.h"

namespace stoa::model {

enum class ModelKind { kGpt, kBert, kT5 };
// kRelative: T5's trained relative bias of the scores, for kind t5.
enum class PositionEmbedding { kLearnedAbsolute, kRope, kAlibi, kNone, kRelative };
enum class Normalization { kLayerNorm, kRmsNorm };
// kGelu is the erf form, kGeluTanh GPT-2's approximation (gelu_new). The last five are gated: act(gate) * up;
// kClampedSwiglu is gpt-oss' swiglu with clamped gate and up (ops/activation.h).
enum class Activation {
  kGelu,
  kGeluTanh,
  kQuickGelu,
  kSilu,
  kRelu,
  kSquaredRelu,
  kSwiglu,
  kGeglu,
  kGegluTanh,
  kReglu,
  kClampedSwiglu
};
enum class NormPlacement { kBefore, kAfter, kBoth };  // of the branches of a layer
enum class BiasKind { kAll, kQkv, kNone };            // which linear layers have a bias
enum class RopeScaling { kDefault, kLinear, kDynamic, kLlama3, kYarn, kLongrope };
enum class RecomputeGranularity { kNone, kSelective, kFull };
enum class RecomputeMethod { kUniform, kBlock };

std::span<const config::EnumName<ModelKind>> enum_names(ModelKind);
std::span<const config::EnumName<PositionEmbedding>> enum_names(PositionEmbedding);
std::span<const config::EnumName<Normalization>> enum_names(Normalization);
std::span<const config::EnumName<NormPlacement>> enum_names(NormPlacement);
std::span<const config::EnumName<Activation>> enum_names(Activation);
std::span<const config::EnumName<BiasKind>> enum_names(BiasKind);
std::span<const config::EnumName<RopeScaling>> enum_names(RopeScaling);
std::span<const config::EnumName<RecomputeGranularity>> enum_names(RecomputeGranularity);
std::span<const config::EnumName<RecomputeMethod>> enum_names(RecomputeMethod);

bool is_gated(Activation activation);  // swiglu, geglu, geglu_tanh, reglu, swiglu_oai: two input projections

// Scaling of the rotary frequencies, with the names of Hugging Face's `rope_scaling`; the formulas are in
// nn/rope.cc.
struct RopeScalingConfig {
  RopeScaling type = RopeScaling::kDefault;
  std::optional<double> factor;                                  // all but default
  std::optional<std::int64_t> original_max_position_embeddings;  // llama3, yarn, longrope
  double low_freq_factor = 1.0, high_freq_factor = 4.0;          // llama3
  double beta_fast = 32.0, beta_slow = 1.0;                      // yarn
  std::optional<double> mscale, mscale_all_dim;                  // yarn
  std::optional<double> attention_factor;                        // yarn, longrope
  bool truncate = true;                                          // yarn
  std::vector<double> short_factor, long_factor;                 // longrope: rotary size / 2 values each
};

// Which activations are saved for backward and which are recomputed.
struct RecomputeConfig {
  RecomputeGranularity granularity = RecomputeGranularity::kNone;
  std::optional<RecomputeMethod> method;  // with full
  std::optional<std::int64_t>
      num_layers;           // uniform: every n-th layer input is kept; block: the first n recompute
  OffloadConfig offload{};  // of saved ones
};

// The vocabulary size of plans and benchmarks if the configuration sets neither vocab_size nor a tokenizer:
// GPT-2's.
inline constexpr std::int64_t kVocabWithoutTokenizer = 50257;

struct ModelConfig {
  ModelKind kind = ModelKind::kGpt;
  std::int64_t num_layers = 12;
  std::int64_t hidden_size = 768;
  std::optional<std::int64_t> ffn_hidden_size;  // see ffn_size()
  std::int64_t num_attention_heads = 12;
  std::optional<std::int64_t> num_query_groups;  // see query_groups()
  std::optional<std::int64_t> kv_channels;       // see head_size()
  std::int64_t encoder_seq_length = 1024;  // tokens per training sample; data.seq_length is the same value
  std::optional<std::int64_t> max_position_embeddings;  // see max_positions()
  std::int64_t first_position =
      0;  // row of position 0 in the table of learned positions; kind bert: bert.first_position

  PositionEmbedding position_embedding_type = PositionEmbedding::kLearnedAbsolute;
  double rotary_percentage = 1.0;  // share of a head that rotates
  double rotary_base = 10000.0;
  std::vector<std::int64_t> no_rope_layers;  // layers without rotary embedding
  RopeScalingConfig rope_scaling;
  std::optional<double> rope_local_base_freq;  // rotary base of layers with a window, never scaled

  Normalization normalization = Normalization::kLayerNorm;
  double layernorm_epsilon = 1e-5;
  NormPlacement norm_placement = NormPlacement::kBefore;
  bool norm_weight = true, norm_bias = true;  // of norms; a bias of LayerNorms alone
  bool use_parallel_residual = false;         // attention and MLP read the same stream
  std::int64_t num_ln_in_parallel_attn = 2;   // with separate norms, or (1) with a shared one
  Activation activation = Activation::kGeluTanh;
  double activation_alpha = 1.702, activation_limit = 7.0;  // of swiglu_oai
  BiasKind bias = BiasKind::kAll;
  // Exceptions from `bias`; null: follow `bias`.
  std::optional<bool> qkv_bias, attention_output_bias, mlp_bias;
  bool share_embeddings_and_output_weights = true;
  bool lm_head_bias = false;                // a number per id, added to its logits
  bool qk_layernorm = false;                // norm of q and k: per head, or
  bool qk_layernorm_all_heads = false;      // over all heads of a token together
  bool qk_layernorm_after_rope = false;     // after the rotary embedding instead of before
  std::optional<std::int64_t> window_size;  // keys seen by a query, itself included; null: all before it
  std::optional<std::int64_t>
      window_first_layer;  // layers below it see all (qwen2: max_window_layers); null: 0
  std::optional<std::int64_t> window_attn_skip_freq;  // every n-th layer sees all; null: none does
  std::vector<std::int64_t>
      window_layers;  // those with the window, in place of the two above; empty: no list
  std::optional<double> query_pre_attn_scalar;    // scores are divided by its root; null: head_size()
  std::optional<double> softmax_scale;            // or are multiplied by this
  std::optional<double> attn_logit_softcapping;   // scores within (-cap, cap); null: no cap
  bool attention_sinks = false;                   // a trained logit per head in every softmax
  std::optional<double> final_logit_softcapping;  // logits likewise
  bool apply_embedding_scaling = false;           // embeddings x sqrt(hidden_size)
  bool embedding_layernorm = false;               // norm of the embeddings
  // Factors of token embeddings, of what a branch adds to the stream, of logits.
  double embedding_multiplier = 1, residual_multiplier = 1, logit_scale = 1;

  bool attention_output_gate = false;  // attention output x sigmoid of a projection

  double hidden_dropout = 0.0;
  double attention_dropout = 0.0;
  double embedding_dropout = 0.0;

  // Terms of the training loss (ops/loss.h); validation reports the loss without them.
  double label_smoothing = 0.0;
  double z_loss_coeff = 0.0;

  bool fp32_residual_connection = true;  // the residual stream in fp32 whatever the precision

  double init_method_std = 0.02;
  bool use_scaled_init_method = true;               // output projections: std / sqrt(2 * num_layers)
  std::optional<std::int64_t> vocab_size;           // null: the tokenizer's, or kVocabWithoutTokenizer
  std::int64_t make_vocab_size_divisible_by = 128;  // padding in memory only, never in files or results
  std::int64_t seed = 1234;

  std::vector<std::string> freeze;  // patterns of names that are not trained (model/freeze.h)

  TaskConfig task;
  BertConfig bert;  // kind bert
  Fp8Config fp8;
  LatentConfig latent;
  LinearAttentionConfig linear;
  T5Config t5;  // kind t5
  MoeConfig moe;
  MupConfig mup;
  PeftConfig peft;
  RecomputeConfig recompute;

  // Sizes with their defaults filled in; valid before and after reading.
  std::int64_t ffn_size() const;       // 4 h; gated: 8/3 h rounded down to a multiple of 64, as Megatron does
  std::int64_t moe_ffn_size() const;   // ffn_size()
  std::int64_t query_groups() const;   // K/V heads: num_attention_heads
  std::int64_t head_size() const;      // kv_channels: hidden_size / num_attention_heads; latent: both parts
  std::int64_t max_positions() const;  // encoder_seq_length
  // int(head_size * rotary_percentage); latent: the rotated part.
  std::int64_t rotary_channels() const;
  // Channels that rotate, in pairs: an odd rotary_channels() is rounded up, as in transformers, but the
  // frequencies still divide by rotary_channels().
  std::int64_t rotary_size() const { return (rotary_channels() + 1) / 2 * 2; }
  bool has_qkv_bias() const;  // the projections of queries, keys and values
  bool has_attention_output_bias() const;
  bool has_mlp_bias() const;
  std::int64_t encoder_layers() const;  // of num_layers; 0 but in kind t5
  std::int64_t source_length() const;   // of a sample, tokens of the source; 0 but in kind t5
  // Whether rows are judged as two sentences that follow each other or not (BERT's pretraining).
  bool judges_sentences() const { return kind == ModelKind::kBert && bert.binary_head && !task.labelled(); }
  // The activation in kind bert's head of masked tokens.
  Activation masked_head_activation() const;
  Pooling pooling() const;  // of task embedding
  // Whether the head's matrix is the token embedding; heads that classify have their own.
  bool ties_head() const { return share_embeddings_and_output_weights && !task.labelled(); }
  std::int64_t sample_length()
      const;  // tokens of a training sample: encoder_seq_length; t5: and those of its target
};

void declare(config::Section<ModelConfig>& s);

// Throws ConfigError if sizes contradict each other. Reading a file does this itself; call it for a struct
// that was filled in by code.
void validate(const ModelConfig& c);

}  // namespace stoa::model
