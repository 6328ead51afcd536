// What the keys of a model exclude among each other.
#include <algorithm>

#include "base/error.h"
#include "model/config.h"

namespace stoa::model {
namespace {

// What models of kind gpt alone have.
void validate_decoder_options(const ModelConfig& c) {
  const std::string kind = c.kind == ModelKind::kBert ? "bert" : "t5";
  require<ConfigError>(
      c.kind == ModelKind::kGpt || (c.embedding_multiplier == 1 && c.residual_multiplier == 1 &&
                                    c.logit_scale == 1 && !c.softmax_scale && c.first_position == 0),
      "kind {} has none of embedding_multiplier, residual_multiplier, logit_scale, softmax_scale and "
      "first_position: leave them out",
      kind);
  require<ConfigError>(!c.lm_head_bias || c.kind != ModelKind::kBert,
                       "the head of kind bert has a bias as it is: leave out lm_head_bias");
  require<ConfigError>(!c.lm_head_bias || c.kind != ModelKind::kT5 || !c.t5.scale_decoder_outputs,
                       "lm_head_bias with t5.scale_decoder_outputs: a head has one or the other");
  require<ConfigError>(!c.softmax_scale || !c.query_pre_attn_scalar,
                       "softmax_scale and query_pre_attn_scalar have the same effect: give one of them");
  require<ConfigError>(!c.lm_head_bias || c.logit_scale == 1,
                       "lm_head_bias with logit_scale {}: a head has one or the other", c.logit_scale);
  require<ConfigError>(
      c.first_position == 0 || c.position_embedding_type == PositionEmbedding::kLearnedAbsolute,
      "first_position {} is used only with position_embedding_type learned_absolute", c.first_position);
  require<ConfigError>(
      c.embedding_multiplier == 1 || c.position_embedding_type != PositionEmbedding::kLearnedAbsolute,
      "embedding_multiplier cannot be combined with learned positions: give position_embedding_type rope, "
      "alibi or "
      "none");
  require<ConfigError>(
      c.residual_multiplier == 1 || c.norm_placement == NormPlacement::kBefore,
      "residual_multiplier needs norm_placement before: a norm after the branch would cancel the factor");
  require<ConfigError>(c.num_ln_in_parallel_attn == 2 || c.use_parallel_residual,
                       "num_ln_in_parallel_attn 1 is used only with use_parallel_residual");
  require<ConfigError>(c.norm_bias || c.normalization == Normalization::kLayerNorm,
                       "norm_bias is used only with normalization layernorm: leave it out");
  require<ConfigError>(c.norm_weight || !c.norm_bias || c.normalization == Normalization::kRmsNorm,
                       "norm_weight false with norm_bias true: a norm without weights has no bias either, "
                       "give norm_bias false");
  require<ConfigError>(c.norm_weight || !c.mup.use_mup,
                       "use_mup folds a factor into the last norm's weight: leave out norm_weight");
  require<ConfigError>(
      !c.qk_layernorm_after_rope || (c.qk_layernorm && c.position_embedding_type == PositionEmbedding::kRope),
      "qk_layernorm_after_rope is used only with qk_layernorm and position_embedding_type rope");
}

void validate_no_rope_layers(const ModelConfig& c) {
  const auto& layers = c.no_rope_layers;
  require<ConfigError>(layers.empty() || c.position_embedding_type == PositionEmbedding::kRope,
                       "no_rope_layers is used only with position_embedding_type rope");
  for (auto layer = layers.begin(); layer != layers.end(); ++layer) {
    require<ConfigError>(*layer >= 0 && *layer < c.num_layers,
                         "no_rope_layers names layer {}, expected numbers from 0 to {}", *layer,
                         c.num_layers - 1);
    require<ConfigError>(
        std::find(layers.begin(), layer, *layer) == layer,
        "no_rope_layers names layer {} twice: it lists the numbers of the layers without rope, as "
        "in [3, 7, 11]; for a list of zeros and ones give the numbers of its zeros",
        *layer);
  }
}

// The head of a classification has its own matrix and none of the language model head's options.
void validate_labelled_decoder(const ModelConfig& c) {
  require<ConfigError>(
      c.task.type != Task::kQuestionAnswering,
      "task question_answering is for kind bert only: a decoder sees no context after a token; let it "
      "generate the answer, or give kind bert");
  require<ConfigError>(!c.lm_head_bias && c.logit_scale == 1 && !c.final_logit_softcapping,
                       "lm_head_bias, logit_scale and final_logit_softcapping belong to the head of task "
                       "language_model: leave them out with another task");
  require<ConfigError>(!c.mup.use_mup, "use_mup is for task language_model only: leave it out");
  require<ConfigError>(
      c.task.type != Task::kSequenceClassification || c.task.classifier_dropout.value_or(0) == 0,
      "classifier_dropout: a decoder has none in task sequence_classification, as in "
      "transformers; leave it out");
}

// Options of decoders that encoders do not have.
void validate_bert(const ModelConfig& c) {
  require<ConfigError>(
      c.position_embedding_type == PositionEmbedding::kLearnedAbsolute ||
          c.position_embedding_type == PositionEmbedding::kRope,
      "kind bert has learned or rotary positions: give position_embedding_type learned_absolute or rope");
  require<ConfigError>(
      c.bert.relative_attention_num_buckets.value_or(0) % 2 == 0,
      "relative_attention_num_buckets is {}, expected an even number: half of them are for earlier tokens",
      c.bert.relative_attention_num_buckets.value_or(0));
  require<ConfigError>(
      !c.window_size || !c.bert.relative_attention_num_buckets,
      "window_size and relative_attention_num_buckets belong to different encoders: give one of them");
  require<ConfigError>(c.share_embeddings_and_output_weights,
                       "the head of kind bert is tied to the token embedding: leave out "
                       "share_embeddings_and_output_weights");
  require<ConfigError>(!c.query_pre_attn_scalar && !c.attn_logit_softcapping && !c.final_logit_softcapping &&
                           !c.apply_embedding_scaling && !c.embedding_layernorm,
                       "kind bert has fixed layers: leave out query_pre_attn_scalar, "
                       "attn_logit_softcapping, final_logit_softcapping, apply_embedding_scaling and "
                       "embedding_layernorm");
  require<ConfigError>(c.normalization == Normalization::kLayerNorm && !c.qk_layernorm &&
                           c.norm_placement == NormPlacement::kBefore && !c.use_parallel_residual,
                       "kind bert has LayerNorms where bert.pre_norm says and none elsewhere: leave out "
                       "normalization, qk_layernorm, norm_placement and use_parallel_residual");
  require<ConfigError>(
      c.query_groups() == c.num_attention_heads && c.head_size() * c.num_attention_heads == c.hidden_size,
      "kind bert has as many key and value heads as queries, of hidden_size / "
      "num_attention_heads channels: leave out num_query_groups and kv_channels");
  require<ConfigError>(
      c.task.type != Task::kQuestionAnswering || (c.label_smoothing == 0 && c.z_loss_coeff == 0),
      "task question_answering has the plain loss: leave out label_smoothing and z_loss_coeff");
  require<ConfigError>(c.bert.lm_head || !c.judges_sentences(),
                       "model.bert.binary_head needs model.bert.lm_head");
  require<ConfigError>(c.bert.embedding_norm || c.bert.pre_norm,
                       "bert.embedding_norm false is for encoders with norms before their branches: give "
                       "bert.pre_norm true");
  require<ConfigError>(
      !is_gated(c.bert.head_activation.value_or(Activation::kGelu)),
      "bert.head_activation: the head has one projection: give an activation without a gate, "
      "such as gelu");
  require<ConfigError>(c.bert.first_position == 0 || !c.judges_sentences(),
                       "first_position {} is RoBERTa's, which has no binary_head", c.bert.first_position);
  require<ConfigError>(
      c.bert.first_position == 0 || c.position_embedding_type == PositionEmbedding::kLearnedAbsolute,
      "first_position {} is used only with position_embedding_type learned_absolute", c.bert.first_position);
  require<ConfigError>(!c.moe.num_moe_experts, "kind bert has no experts: leave out num_moe_experts");
}

void validate_latent(const ModelConfig& c) {
  const LatentConfig& l = c.latent;
  require<ConfigError>(c.kind == ModelKind::kGpt,
                       "multi_latent_attention is for kind gpt only: leave it out");
  require<ConfigError>(c.position_embedding_type == PositionEmbedding::kRope && c.rotary_percentage == 1 &&
                           !c.window_size && !c.qk_layernorm && !c.attn_logit_softcapping &&
                           !c.query_pre_attn_scalar && !c.softmax_scale && c.no_rope_layers.empty(),
                       "multi_latent_attention needs rotary positions and plain attention scores: give "
                       "position_embedding_type "
                       "rope, and leave out rotary_percentage, no_rope_layers, window_size, qk_layernorm, "
                       "attn_logit_softcapping, query_pre_attn_scalar and softmax_scale");
  require<ConfigError>(
      !c.has_mlp_bias() && c.normalization == Normalization::kRmsNorm,
      "multi_latent_attention needs an MLP without bias, and RMSNorm for its latent vectors: give bias "
      "none and normalization rmsnorm");
  require<ConfigError>(
      c.query_groups() == c.num_attention_heads,
      "num_query_groups {} with multi_latent_attention: every head has its own keys, expected {} or nothing",
      c.query_groups(), c.num_attention_heads);
  require<ConfigError>(!c.kv_channels || *c.kv_channels == l.head_size(),
                       "kv_channels {} is not qk_head_dim {} + qk_pos_emb_head_dim {}; leave it out",
                       c.kv_channels.value_or(0), l.qk_head_dim, l.qk_pos_emb_head_dim);
  require<ConfigError>(l.v_head_dim <= l.head_size(),
                       "v_head_dim {} is more than qk_head_dim {} + qk_pos_emb_head_dim {}", l.v_head_dim,
                       l.qk_head_dim, l.qk_pos_emb_head_dim);
}

void validate_t5(const ModelConfig& c) {
  require<ConfigError>(
      c.encoder_layers() >= 1 && c.encoder_layers() < c.num_layers,
      "t5.encoder_layers is {} of num_layers {}: expected 1 to {}, so that both stacks have layers",
      c.encoder_layers(), c.num_layers, c.num_layers - 1);
  require<ConfigError>(c.position_embedding_type == PositionEmbedding::kRelative ||
                           c.position_embedding_type == PositionEmbedding::kLearnedAbsolute,
                       "kind t5 has relative or learned positions: give position_embedding_type relative or "
                       "learned_absolute");
  require<ConfigError>(
      c.t5.seq_length_dec <= c.max_positions() || c.position_embedding_type == PositionEmbedding::kRelative,
      "targets of {} tokens do not fit max_position_embeddings {}; raise it or shorten them",
      c.t5.seq_length_dec, c.max_positions());
  require<ConfigError>(
      c.t5.relative_attention_max_distance > c.t5.relative_attention_num_buckets / 2,
      "relative_attention_max_distance {} leaves no room for {} buckets; expected more than {}",
      c.t5.relative_attention_max_distance, c.t5.relative_attention_num_buckets,
      c.t5.relative_attention_num_buckets / 2);
  require<ConfigError>(
      !c.t5.relative_bias_per_layer || c.position_embedding_type == PositionEmbedding::kRelative,
      "t5.relative_bias_per_layer is used only with position_embedding_type relative");
  require<ConfigError>(!c.window_size, "kind t5 has no sliding window: leave out window_size");
  require<ConfigError>(!c.qk_layernorm, "kind t5 has no norm of q and k: leave out qk_layernorm");
  require<ConfigError>(c.query_groups() == c.num_attention_heads,
                       "kind t5 has as many key heads as query heads: leave out num_query_groups");
  require<ConfigError>(!c.moe.num_moe_experts, "kind t5 has no experts: leave out num_moe_experts");
  require<ConfigError>(c.norm_placement == NormPlacement::kBefore && !c.use_parallel_residual &&
                           !c.embedding_layernorm && !c.query_pre_attn_scalar && !c.attn_logit_softcapping &&
                           c.has_qkv_bias() == c.has_mlp_bias() &&
                           c.has_attention_output_bias() == c.has_mlp_bias(),
                       "kind t5 has norms before its branches, sequential branches, and biases everywhere or "
                       "nowhere: leave out norm_placement, use_parallel_residual, embedding_layernorm, "
                       "query_pre_attn_scalar, attn_logit_softcapping, qkv_bias, attention_output_bias and "
                       "mlp_bias, and give bias all or none");
}

}  // namespace

void validate(const ModelConfig& c) {
  require<ConfigError>(
      c.kv_channels || c.latent.multi_latent_attention || c.hidden_size % c.num_attention_heads == 0,
      "hidden_size {} is not divisible by num_attention_heads {}; choose a divisor, or give kv_channels",
      c.hidden_size, c.num_attention_heads);
  require<ConfigError>(c.num_attention_heads % c.query_groups() == 0,
                       "num_attention_heads {} is not divisible by num_query_groups {}",
                       c.num_attention_heads, c.query_groups());
  require<ConfigError>(c.ffn_size() >= 1,
                       "hidden_size {} is too small for a gated MLP's default width; give ffn_hidden_size",
                       c.hidden_size);
  require<ConfigError>(
      c.max_positions() >= c.encoder_seq_length,
      "sequences of {} tokens do not fit max_position_embeddings {}; raise it or shorten the sequence",
      c.encoder_seq_length, c.max_positions());
  if (c.position_embedding_type == PositionEmbedding::kRope) {
    const bool latent = c.latent.multi_latent_attention;
    require<ConfigError>(
        latent ? c.rotary_channels() % 2 == 0 : c.rotary_channels() >= 1 && c.rotary_size() <= c.head_size(),
        "rotary positions rotate pairs: {} of {} channels (rotary_percentage {}) is {}", c.rotary_channels(),
        c.head_size(), c.rotary_percentage,
        c.rotary_channels() < 1 ? "none"
        : latent                ? "not an even number"
                                : "one more than there are");
    require<ConfigError>(c.rope_scaling.type != RopeScaling::kYarn || c.rotary_channels() % 2 == 0,
                         "yarn needs pairs of channels: {} of {} rotate (rotary_percentage {})",
                         c.rotary_channels(), c.head_size(), c.rotary_percentage);
    if (c.rope_scaling.type == RopeScaling::kLongrope) {
      const auto pairs = static_cast<std::size_t>(c.rotary_size() / 2);
      require<ConfigError>(
          c.rope_scaling.short_factor.size() == pairs && c.rope_scaling.long_factor.size() == pairs,
          "longrope needs {} values (rotary size / 2) in short_factor and in long_factor; given {} and {}",
          pairs, c.rope_scaling.short_factor.size(), c.rope_scaling.long_factor.size());
    }
  } else {
    require<ConfigError>(c.rope_scaling.type == RopeScaling::kDefault,
                         "rope_scaling is used only with position_embedding_type rope");
  }
  validate_decoder_options(c);
  validate_no_rope_layers(c);
  validate(c.task);
  require<ConfigError>(c.kind != ModelKind::kT5 || !c.task.labelled(),
                       "kind t5 has no task but language_model: leave out model.task");
  require<ConfigError>(!c.task.embeds() || (c.label_smoothing == 0 && c.z_loss_coeff == 0),
                       "task embedding compares texts: leave out label_smoothing and z_loss_coeff");
  if (c.kind == ModelKind::kGpt && c.task.labelled()) validate_labelled_decoder(c);
  if (c.kind == ModelKind::kBert) validate_bert(c);
  if (c.latent.multi_latent_attention) validate_latent(c);
  if (c.kind == ModelKind::kT5) validate_t5(c);
  require<ConfigError>(
      c.kind == ModelKind::kT5 || c.position_embedding_type != PositionEmbedding::kRelative,
      "position_embedding_type relative is for kind t5 only; expected learned_absolute, rope or none");
  validate(c.moe, c.num_layers);
  validate(c.linear, c.num_layers);
  require<ConfigError>(!c.linear.any() || (c.kind == ModelKind::kGpt && !c.mup.use_mup),
                       "linear attention (linear_attention_freq, linear_attention_layers) is for kind gpt "
                       "without use_mup: leave out one of them");
  require<ConfigError>(
      !c.attention_output_gate || (c.kind == ModelKind::kGpt && !c.latent.multi_latent_attention),
      "attention_output_gate is for kind gpt without multi_latent_attention: leave it out");
  if (c.mup.use_mup) {
    require<ConfigError>(c.kind == ModelKind::kGpt, "use_mup is for kind gpt only: leave it out");
    require<ConfigError>(
        !c.query_pre_attn_scalar && !c.softmax_scale && !c.apply_embedding_scaling &&
            c.embedding_multiplier == 1 && c.logit_scale == 1,
        "use_mup determines how scores, embeddings and logits scale with the width: leave out "
        "query_pre_attn_scalar, softmax_scale, apply_embedding_scaling, embedding_multiplier "
        "and logit_scale");
  }
  require<ConfigError>(
      !c.moe.moe_shared_expert_intermediate_size || !c.has_mlp_bias(),
      "shared experts have no biases: give bias none or qkv with moe_shared_expert_intermediate_size");
  const bool clamped = c.activation == Activation::kClampedSwiglu;
  require<ConfigError>(
      clamped || (c.activation_alpha == 1.702 && c.activation_limit == 7.0),
      "activation_alpha and activation_limit are for activation swiglu_oai only: leave them out");
  require<ConfigError>((!clamped && !c.attention_sinks) || c.kind == ModelKind::kGpt,
                       "activation swiglu_oai and attention_sinks are for kind gpt only: leave them out");
  require<ConfigError>(!c.attention_sinks || !c.latent.multi_latent_attention,
                       "multi_latent_attention has no attention_sinks: leave them out");
  require<ConfigError>(!c.use_parallel_residual || c.norm_placement == NormPlacement::kBefore,
                       "use_parallel_residual with norm_placement {}: expected before",
                       c.norm_placement == NormPlacement::kAfter ? "after" : "both");
  require<ConfigError>(c.qk_layernorm || !c.qk_layernorm_all_heads,
                       "qk_layernorm_all_heads is used only with qk_layernorm");
  require<ConfigError>(c.window_size || !c.window_first_layer,
                       "window_first_layer is used only with window_size");
  require<ConfigError>(
      !c.apply_embedding_scaling || c.position_embedding_type != PositionEmbedding::kLearnedAbsolute,
      "apply_embedding_scaling cannot be combined with learned positions: give position_embedding_type rope, "
      "alibi or "
      "none");
  require<ConfigError>(c.window_size || !c.window_attn_skip_freq,
                       "window_attn_skip_freq is used only with window_size");
  require<ConfigError>(c.window_size || c.window_layers.empty(),
                       "window_layers is used only with window_size");
  require<ConfigError>(c.window_layers.empty() || (!c.window_first_layer && !c.window_attn_skip_freq),
                       "window_layers lists the layers with the window: leave out window_first_layer and "
                       "window_attn_skip_freq");
  for (auto layer = c.window_layers.begin(); layer != c.window_layers.end(); ++layer) {
    require<ConfigError>(*layer >= 0 && *layer < c.num_layers,
                         "window_layers names layer {}, there are 0 to {}", *layer, c.num_layers - 1);
    require<ConfigError>(std::find(c.window_layers.begin(), layer, *layer) == layer,
                         "window_layers lists layer {} twice", *layer);
  }
  require<ConfigError>(
      !c.rope_local_base_freq || (c.window_size && c.position_embedding_type == PositionEmbedding::kRope),
      "rope_local_base_freq is used only with window_size and position_embedding_type rope");
  require<ConfigError>(c.recompute.num_layers.value_or(0) <= c.num_layers,
                       "activations_checkpoint_num_layers {} is more than num_layers {}",
                       c.recompute.num_layers.value_or(0), c.num_layers);
  const OffloadConfig& offload = c.recompute.offload;
  require<ConfigError>(
      !offload.cpu_offloading || offload.cpu_offloading_num_layers.value_or(0) <= c.num_layers,
      "cpu_offloading_num_layers {} is more than num_layers {}",
      offload.cpu_offloading_num_layers.value_or(0), c.num_layers);
}

}  // namespace stoa::model
