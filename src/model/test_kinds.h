// Small models of every kind, for tests.
#pragma once

#include "model/config.h"

namespace stoa::model::testing {

enum Kind {
  kGpt2,
  kLlama,
  kExperts,
  kBert,
  kBertNoDropout,
  kParallel,
  kNormsAfter,
  kNormsBoth,
  kGemma,
  kAlibi,
  kLatent,
  kGptOss,
  kLatentBias,
  kBiasParts,
  kMultipliers,
  kOneNorm,
  kGatedExperts,
  kWindowedEncoder,
  kRelativeEncoder,
  kMegatronBert,
  kLinear,
  kKinds
};

inline ModelConfig config_of(int kind) {
  ModelConfig c;
  c.num_layers = 5;
  c.hidden_size = 16;
  c.num_attention_heads = 4;
  c.ffn_hidden_size = 24;
  c.encoder_seq_length = 8;
  c.vocab_size = 19;
  c.make_vocab_size_divisible_by = 8;
  c.hidden_dropout = 0.1;
  c.attention_dropout = 0.1;
  c.embedding_dropout = 0.1;
  c.use_parallel_residual = kind == kParallel || kind == kOneNorm;
  if (kind == kOneNorm) {
    c.num_ln_in_parallel_attn = 1;
    c.norm_bias = false;
    c.lm_head_bias = true;
    c.first_position = 2;
  }
  if (kind == kBert || kind == kBertNoDropout || kind == kWindowedEncoder || kind == kRelativeEncoder ||
      kind == kMegatronBert)
    c.kind = ModelKind::kBert;
  if (kind == kMegatronBert) {
    c.bert.pre_norm = true;
    c.bert.embedding_norm = false;
    c.bert.head_activation = Activation::kGelu;
    return c;
  }
  if (kind == kRelativeEncoder) {
    c.bert.num_token_types = 0;
    c.bert.relative_attention_num_buckets = 8;
    return c;
  }
  if (kind == kWindowedEncoder) {
    c.bert.num_token_types = 0;
    c.bert.binary_head = false;
    c.bert.pre_norm = true;
    c.bert.classifier_bias = false;
    c.position_embedding_type = PositionEmbedding::kRope;
    c.activation = Activation::kGeglu;
    c.bias = BiasKind::kNone;
    c.norm_bias = false;
    c.window_size = 3;
    c.window_attn_skip_freq = 2;
    c.rope_local_base_freq = 100;
    return c;
  }
  if (kind == kBertNoDropout) c.hidden_dropout = c.embedding_dropout = 0;
  if (kind == kAlibi) {
    c.position_embedding_type = PositionEmbedding::kAlibi;
    c.embedding_layernorm = true;
  }
  if (kind == kGpt2 || kind == kBert || kind == kBertNoDropout || kind == kParallel || kind == kAlibi ||
      kind == kOneNorm)
    return c;
  c.position_embedding_type = PositionEmbedding::kRope;
  c.normalization = Normalization::kRmsNorm;
  c.activation = Activation::kSwiglu;
  c.bias = BiasKind::kNone;
  c.num_query_groups = 2;
  c.qk_layernorm = true;
  if (kind == kNormsAfter) {
    c.norm_placement = NormPlacement::kAfter;
    c.qk_layernorm_all_heads = true;
    return c;
  }
  if (kind == kLinear) {
    c.linear = {3, {}, 2, 4, 3, 5, 4};
    c.attention_output_gate = true;
    return c;
  }
  if (kind == kBiasParts) {  // and windows in listed layers
    c.attention_output_bias = true;
    c.window_size = 3;
    c.window_layers = {0, 1, 3};
    return c;
  }
  if (kind == kLatent || kind == kLatentBias) {
    if (kind == kLatentBias) c.qkv_bias = c.attention_output_bias = true;
    c.num_query_groups = 4;
    c.qk_layernorm = false;
    c.latent = {true, 6, 5, 4, 4, 3};
    return c;
  }
  if (kind == kMultipliers) {
    c.qk_layernorm_after_rope = true;
    c.no_rope_layers = {1, 3};
    c.embedding_multiplier = 3;
    c.residual_multiplier = 0.4;
    c.softmax_scale = 0.7;
    c.logit_scale = 0.6;
    return c;
  }
  c.hidden_dropout = 0;  // the other path through the block
  if (kind == kNormsBoth) c.norm_placement = NormPlacement::kBoth;
  if (kind == kGemma) {
    c.norm_placement = NormPlacement::kBoth;
    c.activation = Activation::kGegluTanh;
    c.window_size = 3;
    c.window_attn_skip_freq = 2;
    c.rope_local_base_freq = 100;
    c.query_pre_attn_scalar = 9;
    c.attn_logit_softcapping = 2;
    c.final_logit_softcapping = 3;
    c.apply_embedding_scaling = true;
  }
  if (kind == kLlama || kind == kNormsBoth || kind == kGemma) return c;
  if (kind == kGptOss) {
    c.bias = BiasKind::kAll;
    c.qk_layernorm = false;
    c.attention_sinks = true;
    c.activation = Activation::kClampedSwiglu;
    c.activation_limit = 0.1;
    c.window_size = 3;
    c.window_attn_skip_freq = 2;
    c.moe.num_moe_experts = 4;
    c.moe.moe_ffn_hidden_size = 12;
    return c;
  }
  c.moe.num_moe_experts = 4;
  c.moe.moe_ffn_hidden_size = 12;
  c.moe.moe_shared_expert_intermediate_size = 8;
  c.moe.moe_aux_loss_coeff = 0.01;
  c.moe.moe_z_loss_coeff = 0.001;
  c.moe.moe_dense_layers = {2};
  if (kind == kGatedExperts) {
    c.moe.moe_shared_expert_gate = true;
    c.residual_multiplier = 0.7;
  }
  return c;
}

}  // namespace stoa::model::testing
