#include "model/model_spec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/adapter_plan.h"
#include "model/chunk.h"
#include "model/freeze.h"

namespace stoa::model {

nn::NormOptions norm_options(const ModelConfig& c) {
  return {c.normalization == Normalization::kRmsNorm ? ops::NormKind::kRmsNorm : ops::NormKind::kLayerNorm,
          c.layernorm_epsilon, c.norm_bias, c.norm_weight};
}

ops::ActivationKind activation_kind(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
    case Activation::kGeglu:
      return ops::ActivationKind::kGelu;
    case Activation::kGeluTanh:
    case Activation::kGegluTanh:
      return ops::ActivationKind::kGeluTanh;
    case Activation::kQuickGelu:
      return ops::ActivationKind::kQuickGelu;
    case Activation::kSilu:
    case Activation::kSwiglu:
      return ops::ActivationKind::kSilu;
    case Activation::kRelu:
    case Activation::kReglu:
      return ops::ActivationKind::kRelu;
    case Activation::kSquaredRelu:
      return ops::ActivationKind::kSquaredRelu;
    case Activation::kClampedSwiglu:
      return ops::ActivationKind::kClampedSwiglu;
  }
  fail<InternalError>("unknown activation");
}

namespace {

nn::NormPlacement norm_placement(NormPlacement placement) {
  switch (placement) {
    case NormPlacement::kBefore:
      return nn::NormPlacement::kBefore;
    case NormPlacement::kAfter:
      return nn::NormPlacement::kAfter;
    case NormPlacement::kBoth:
      return nn::NormPlacement::kBoth;
  }
  fail<InternalError>("unknown norm placement");
}

nn::RopeKind rope_kind(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kDefault:
      return nn::RopeKind::kDefault;
    case RopeScaling::kLinear:
      return nn::RopeKind::kLinear;
    case RopeScaling::kDynamic:
      return nn::RopeKind::kDynamic;
    case RopeScaling::kLlama3:
      return nn::RopeKind::kLlama3;
    case RopeScaling::kYarn:
      return nn::RopeKind::kYarn;
    case RopeScaling::kLongrope:
      return nn::RopeKind::kLongrope;
  }
  fail<InternalError>("unknown rope scaling");
}

// Megatron's rule, for a sequence: its assignments, distributed evenly, times the factor.
std::int64_t moe_capacity(const ModelConfig& c) {
  const double even = static_cast<double>(c.encoder_seq_length * c.moe.moe_router_topk) /
                      static_cast<double>(*c.moe.num_moe_experts);
  return static_cast<std::int64_t>(std::ceil(even * *c.moe.moe_expert_capacity_factor));
}

nn::MoeOptions moe_options(const ModelConfig& c, const nn::MlpOptions& dense, const std::string& layer,
                           const parallel::ExpertPlace& experts) {
  const MoeConfig& m = c.moe;
  const bool balance = m.moe_router_load_balancing_type == LoadBalancing::kSequence;
  return {.name = layer + ".moe",
          .hidden = c.hidden_size,
          .ffn = c.moe_ffn_size(),
          .experts = *m.num_moe_experts,
          .chosen = m.moe_router_topk,
          .router = {.score = m.moe_router_score_function == RouterScoreFunction::kSigmoid
                                  ? ops::RouterScore::kSigmoid
                                  : ops::RouterScore::kSoftmax,
                     .normalize = !m.moe_router_pre_softmax,
                     .scale = m.moe_router_topk_scaling_factor.value_or(1),
                     .groups = m.moe_router_num_groups.value_or(1),
                     .chosen_groups = m.moe_router_group_topk.value_or(1)},
          .bias_rate = m.moe_router_enable_expert_bias ? m.moe_router_bias_update_rate : 0,
          .capacity = m.moe_expert_capacity_factor ? moe_capacity(c) : 0,
          .drop = m.moe_token_drop_policy == TokenDropPolicy::kProbs ? ops::DropPolicy::kWeight
                                                                     : ops::DropPolicy::kPosition,
          .length = c.encoder_seq_length,
          .buffer_factor = c.fp8.fp8 ? std::nullopt : std::optional(m.moe_buffer_factor),
          .balance = balance ? m.moe_aux_loss_coeff : 0,
          .z = m.moe_z_loss_coeff,
          .shared_ffn = m.moe_shared_expert_intermediate_size.value_or(0),
          .shared_gate = m.moe_shared_expert_gate,
          .activation = dense.activation,
          .gated = dense.gated,
          .clamp = dense.clamp,
          .bias = dense.bias,
          .deviation = dense.deviation,
          .output_deviation = dense.output_deviation,
          .place = dense.place,
          .experts_place = experts};
}

}  // namespace

ModelSpec resolve_model(const ModelConfig& config, std::int64_t tokenizer_vocabulary) {
  validate(config);
  ModelSpec spec{config, config.vocab_size.value_or(tokenizer_vocabulary), 0};
  // A file of transformers that does not say it means 0.1.
  TaskConfig& task = spec.config.task;
  if (config.kind == ModelKind::kGpt && task.type == Task::kTokenClassification && !task.classifier_dropout)
    task.classifier_dropout = config.hidden_dropout;
  require<ConfigError>(spec.vocabulary > 0,
                       "the vocabulary size is unknown: give a tokenizer or model.vocab_size");
  require<ConfigError>(
      spec.vocabulary >= tokenizer_vocabulary,
      "vocab_size {} is smaller than the tokenizer's {} ids; give at least that, or leave it out",
      spec.vocabulary, tokenizer_vocabulary);
  const std::int64_t multiple = config.make_vocab_size_divisible_by;
  spec.padded_vocabulary = (spec.vocabulary + multiple - 1) / multiple * multiple;
  spec.adapters = plan_adapters(spec);
  check_freeze(spec);
  return spec;
}

namespace {

// As transformers has it, rounded to the type of the weights.
double embedding_scale(const ModelConfig& c, DType compute) {
  if (!c.apply_embedding_scaling) return c.embedding_multiplier;
  double scale = std::sqrt(static_cast<double>(c.hidden_size));
  dispatch_float(compute, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>)
      scale = static_cast<double>(static_cast<float>(T(static_cast<float>(scale))));
  });
  return scale * c.embedding_multiplier;
}

}  // namespace

nn::EmbeddingOptions embedding_options(const ModelSpec& spec, nn::Precision precision,
                                       const parallel::TensorPlace& place) {
  const ModelConfig& c = spec.config;
  return {.vocabulary = spec.vocabulary,
          .padded_vocabulary = spec.padded_vocabulary,
          .hidden = c.hidden_size,
          .positions = c.position_embedding_type == PositionEmbedding::kLearnedAbsolute
                           ? c.max_positions() + c.first_position
                           : 0,
          .first_position = c.first_position,
          .token_types = 0,
          .scale = embedding_scale(c, precision.compute),
          .norm = c.embedding_layernorm ? std::optional(norm_options(c)) : std::nullopt,
          .dropout = static_cast<float>(c.embedding_dropout),
          .deviation = c.init_method_std,
          .precision = precision,
          .place = place};
}

nn::LmHeadOptions head_options(const ModelSpec& spec, nn::Precision precision,
                               const parallel::TensorPlace& place) {
  const ModelConfig& c = spec.config;
  return {.output = {.vocabulary = spec.vocabulary,
                     .padded_vocabulary = spec.padded_vocabulary,
                     .hidden = c.hidden_size,
                     .bias = c.lm_head_bias,
                     .softcap = c.final_logit_softcapping.value_or(0),
                     .deviation = c.init_method_std,
                     .precision = precision,
                     .place = place,
                     .smoothing = c.label_smoothing,
                     .z_weight = c.z_loss_coeff},
          .norm = norm_options(c),
          .scale = c.logit_scale};
}

std::int64_t layer_window(const ModelConfig& c, std::int64_t layer) {
  const auto& listed = c.window_layers;
  const bool full = listed.empty()
                        ? layer < c.window_first_layer.value_or(0) ||
                              (c.window_attn_skip_freq && (layer + 1) % *c.window_attn_skip_freq == 0)
                        : std::find(listed.begin(), listed.end(), layer) == listed.end();
  return c.window_size && !full ? *c.window_size : 0;
}

namespace {

std::optional<nn::LatentSizes> latent_sizes(const ModelConfig& c) {
  const LatentConfig& l = c.latent;
  if (!l.multi_latent_attention) return std::nullopt;
  return nn::LatentSizes{.query_rank = l.q_lora_rank.value_or(0),
                         .rank = l.kv_lora_rank,
                         .rotated = l.qk_pos_emb_head_dim,
                         .own = l.qk_head_dim,
                         .value = l.v_head_dim};
}

std::optional<nn::DeltaSizes> delta_sizes(const ModelConfig& c, std::int64_t layer) {
  const LinearAttentionConfig& l = c.linear;
  if (!l.is_linear(layer)) return std::nullopt;
  return nn::DeltaSizes{.key_heads = l.linear_num_key_heads,
                        .value_heads = l.linear_num_value_heads,
                        .key_size = l.linear_key_head_dim,
                        .value_size = l.linear_value_head_dim,
                        .taps = l.linear_conv_kernel_dim,
                        .epsilon = c.layernorm_epsilon};
}

// None: 1 / sqrt(head size). With yarn, DeepSeek's latent attention scales all of a score as cosine and sine
// scale the rotated part of others (2412.19437, section 4.3; transformers' DeepseekV3Attention).
std::optional<double> score_scale(const ModelConfig& c) {
  if (c.softmax_scale) return c.softmax_scale;
  if (c.query_pre_attn_scalar) return 1 / std::sqrt(*c.query_pre_attn_scalar);
  const RopeScalingConfig& s = c.rope_scaling;
  if (!c.latent.multi_latent_attention || s.type != RopeScaling::kYarn || !s.mscale_all_dim)
    return std::nullopt;
  const double m = nn::yarn_mscale(s.factor.value_or(1), *s.mscale_all_dim);
  return m * m / std::sqrt(static_cast<double>(c.head_size()));
}

}  // namespace

nn::TransformerBlockOptions block_options(const ModelSpec& spec, std::int64_t layer, nn::Precision precision,
                                          const parallel::TensorPlace& place,
                                          const parallel::ExpertPlace& experts) {
  const ModelConfig& c = spec.config;
  const std::string name = "layers." + std::to_string(layer);
  const double output_deviation = c.use_scaled_init_method
                                      ? c.init_method_std / std::sqrt(2.0 * static_cast<double>(c.num_layers))
                                      : c.init_method_std;
  nn::TransformerBlockOptions out;
  out.name = name;
  out.norm_placement = norm_placement(c.norm_placement);
  out.parallel = c.use_parallel_residual;
  out.one_norm = c.num_ln_in_parallel_attn == 1;
  out.residual_multiplier = c.residual_multiplier;
  out.norm = norm_options(c);
  out.attention = {.name = name + ".attention",
                   .layer = layer,
                   .hidden = c.hidden_size,
                   .heads = c.num_attention_heads,
                   .groups = c.query_groups(),
                   .head_size = c.head_size(),
                   .latent = latent_sizes(c),
                   .bias = c.has_qkv_bias(),
                   .output_bias = c.has_attention_output_bias(),
                   .qk_norm = c.qk_layernorm ? std::optional(norm_options(c)) : std::nullopt,
                   .qk_norm_whole = c.qk_layernorm_all_heads,
                   .qk_norm_after_rope = c.qk_layernorm_after_rope,
                   .rope_table = position_tables(c, layer).rope,
                   .distance_table = position_tables(c, layer).distance,
                   .window = layer_window(c, layer),
                   .scale = score_scale(c),
                   .softcap = c.attn_logit_softcapping.value_or(0),
                   .sinks = c.attention_sinks,
                   .dropout = static_cast<float>(c.attention_dropout),
                   .deviation = c.init_method_std,
                   .output_deviation = output_deviation,
                   .place = place};
  out.mlp = {.name = name + ".mlp",
             .hidden = c.hidden_size,
             .ffn = c.ffn_size(),
             .activation = activation_kind(c.activation),
             .gated = is_gated(c.activation),
             .clamp = {c.activation_alpha, c.activation_limit},
             .bias = c.has_mlp_bias(),
             .deviation = c.init_method_std,
             .output_deviation = output_deviation,
             .place = place};
  if (c.peft.peft_scheme == PeftScheme::kPrefix) {
    out.attention.prefix_constants = prefix_constants(c);
    out.attention.vocabulary = spec.vocabulary;
  }
  if (spec.adapters) {
    out.attention_adapter = spec.adapters->bottleneck({layer, name, true}, place);
    out.mlp_adapter = spec.adapters->bottleneck({layer, name, false}, place);
  }
  out.attention.delta = delta_sizes(c, layer);
  out.attention.output_gate = c.attention_output_gate;
  if (out.attention.delta) out.attention.name = name + ".delta";
  if (c.moe.has_experts(layer)) out.moe = moe_options(c, out.mlp, name, experts);
  out.dropout = static_cast<float>(c.hidden_dropout);
  out.precision = precision;
  return out;
}

parallel::TensorSplit tensor_split(const ModelSpec& spec, std::int64_t tokens) {
  return {spec.config.num_attention_heads, spec.config.ffn_size(), spec.vocabulary, tokens};
}

std::vector<nn::RopeOptions> rope_tables(const ModelConfig& c) {
  if (c.position_embedding_type != PositionEmbedding::kRope) return {};
  const RopeScalingConfig& s = c.rope_scaling;
  std::vector<nn::RopeOptions> out{{.kind = rope_kind(s.type),
                                    .size = c.rotary_size(),
                                    .exponent_size = c.rotary_channels(),
                                    .base = c.rotary_base,
                                    .max_positions = c.max_positions(),
                                    .factor = s.factor,
                                    .original_positions = s.original_max_position_embeddings,
                                    .low_frequency = s.low_freq_factor,
                                    .high_frequency = s.high_freq_factor,
                                    .beta_fast = s.beta_fast,
                                    .beta_slow = s.beta_slow,
                                    .mscale = s.mscale,
                                    .mscale_all = s.mscale_all_dim,
                                    .attention_factor = s.attention_factor,
                                    .truncate = s.truncate,
                                    .short_factors = s.short_factor,
                                    .long_factors = s.long_factor}};
  if (c.rope_local_base_freq) {
    nn::RopeOptions local;
    local.size = c.rotary_size();
    local.exponent_size = c.rotary_channels();
    local.base = *c.rope_local_base_freq;
    local.max_positions = c.max_positions();
    out.push_back(local);
  }
  return out;
}

PositionTables position_tables(const ModelConfig& c, std::int64_t layer) {
  if (c.position_embedding_type == PositionEmbedding::kAlibi) return {.distance = 0};
  PositionTables out;
  // An encoder's windows go to both sides (model/bert_architecture.cc).
  if (c.kind == ModelKind::kBert && layer_window(c, layer) > 0)
    out.distance = static_cast<int>(rope_tables(c).size());
  const auto& without = c.no_rope_layers;
  if (c.position_embedding_type != PositionEmbedding::kRope ||
      std::find(without.begin(), without.end(), layer) != without.end())
    return out;
  out.rope = c.rope_local_base_freq && layer_window(c, layer) > 0 ? 1 : 0;
  return out;
}

int prefix_constants(const ModelConfig& c) {
  return c.position_embedding_type == PositionEmbedding::kAlibi ? 1 : static_cast<int>(rope_tables(c).size());
}

CacheSizes cache_sizes(const ModelConfig& c, const parallel::TensorPlace& place) {
  if (c.latent.multi_latent_attention) return {1, c.latent.kv_lora_rank + c.latent.qk_pos_emb_head_dim, true};
  return {parallel::head_part(c.num_attention_heads, c.query_groups(), place).groups.count, c.head_size()};
}

std::vector<std::int64_t> caching_layers(const ModelConfig& c, const parallel::Part& layers) {
  std::vector<std::int64_t> out;
  for (std::int64_t l = layers.begin; l < layers.end(); ++l)
    if (c.kind != ModelKind::kT5 || l >= c.encoder_layers()) out.push_back(l);
  return out;
}

StateSizes state_sizes(const ModelConfig& c, const parallel::TensorPlace& place) {
  const LinearAttentionConfig& l = c.linear;
  const std::int64_t key_heads = parallel::part_of(l.linear_num_key_heads, place.size, place.rank).count,
                     value_heads = l.linear_num_value_heads / l.linear_num_key_heads * key_heads,
                     keys = key_heads * l.linear_key_head_dim, values = value_heads * l.linear_value_head_dim;
  return {{1, l.linear_conv_kernel_dim - 1, 2 * keys + values},
          {1, value_heads, l.linear_key_head_dim, l.linear_value_head_dim}};
}

nn::RecomputeOptions recompute_options(const RecomputeConfig& c, std::int64_t layers) {
  nn::RecomputeOptions out;
  switch (c.granularity) {
    case RecomputeGranularity::kNone:
      out.level = nn::RecomputeLevel::kNone;
      break;
    case RecomputeGranularity::kSelective:
      out.level = nn::RecomputeLevel::kSelective;
      break;
    case RecomputeGranularity::kFull:
      out.level = nn::RecomputeLevel::kFull;
      break;
  }
  const bool block = c.method == RecomputeMethod::kBlock;
  out.scope = block ? nn::RecomputeScope::kBlock : nn::RecomputeScope::kUniform;
  out.layers = c.num_layers.value_or(block ? layers : 1);
  return out;
}

std::vector<CanonicalTensor> canonical_tensors(const ModelSpec& spec) {
  const Chunk chunk = whole_chunk(spec);
  std::vector<CanonicalTensor> out;
  for (const auto& parameter : chunk.params().specs())
    for (const auto& piece : parameter.shard.pieces)
      out.push_back({piece.name, piece.global, parameter.trained, parameter.is_matrix(), parameter.adapter});
  return out;
}

std::int64_t parameter_count(const ModelSpec& spec) {
  std::int64_t total = 0;
  for (const auto& tensor : canonical_tensors(spec)) total += tensor.shape.elements();
  return total;
}

std::int64_t trained_parameter_count(const ModelSpec& spec) {
  std::int64_t total = 0;
  for (const auto& tensor : canonical_tensors(spec)) total += tensor.trained ? tensor.shape.elements() : 0;
  return total;
}

std::int64_t active_parameter_count(const ModelSpec& spec) {
  const ActiveWeights active = active_weights(spec);
  std::int64_t total = active.embedding.all + active.head.all;
  for (const ActiveWeights::Part& layer : active.layers) total += layer.all;
  return total;
}

ActiveWeights active_weights(const ModelSpec& spec) {
  const Chunk chunk = whole_chunk(spec);
  const nn::ParamList& parameters = chunk.params();
  ActiveWeights out;
  out.first_trained = chunk.first_trained();
  // Counted in parts of a weight, of which a token meets one per expert that it is sent to.
  const MoeConfig& moe = spec.config.moe;
  const std::int64_t experts = moe.num_moe_experts.value_or(1);
  int unit = -1;
  for (const nn::ParamSpec& parameter : parameters.specs()) {
    for (; unit < parameter.unit; ++unit)
      if (parameters.is_block(unit + 1)) out.layers.emplace_back();
    ActiveWeights::Part& part = parameters.is_block(unit) ? out.layers.back()
                                : out.layers.empty()      ? out.embedding
                                                          : out.head;
    for (const ShardPiece& piece : parameter.shard.pieces) {
      const bool of_expert = piece.name.find(".experts.") != std::string::npos;
      const std::int64_t met = piece.global.elements() * (of_expert ? moe.moe_router_topk : experts);
      part.all += met;
      if (parameter.trained) part.trained += met;
    }
  }
  const auto whole = [&](ActiveWeights::Part& part) {
    part.all /= experts;
    part.trained /= experts;
  };
  whole(out.embedding);
  whole(out.head);
  std::for_each(out.layers.begin(), out.layers.end(), whole);
  return out;
}

}  // namespace stoa::model
