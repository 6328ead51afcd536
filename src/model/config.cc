#include "model/config.h"

#include <array>

namespace stoa::model {

using config::EnumName;

std::span<const EnumName<ModelKind>> enum_names(ModelKind) {
  static constexpr std::array<EnumName<ModelKind>, 3> kNames{{
      {"gpt", ModelKind::kGpt},
      {"bert", ModelKind::kBert},
      {"t5", ModelKind::kT5},
  }};
  return kNames;
}

std::span<const EnumName<PositionEmbedding>> enum_names(PositionEmbedding) {
  static constexpr std::array<EnumName<PositionEmbedding>, 5> kNames{{
      {"learned_absolute", PositionEmbedding::kLearnedAbsolute},
      {"rope", PositionEmbedding::kRope},
      {"alibi", PositionEmbedding::kAlibi},
      {"none", PositionEmbedding::kNone},
      {"relative", PositionEmbedding::kRelative},
  }};
  return kNames;
}

std::span<const EnumName<Normalization>> enum_names(Normalization) {
  // layernorm1p stores weight - 1: the same function and, with norms exempt from decay, the same training.
  static constexpr std::array<EnumName<Normalization>, 3> kNames{{
      {"layernorm", Normalization::kLayerNorm},
      {"rmsnorm", Normalization::kRmsNorm},
      {"layernorm1p", Normalization::kLayerNorm},
  }};
  return kNames;
}

std::span<const EnumName<NormPlacement>> enum_names(NormPlacement) {
  static constexpr std::array<EnumName<NormPlacement>, 3> kNames{{
      {"before", NormPlacement::kBefore},
      {"after", NormPlacement::kAfter},
      {"both", NormPlacement::kBoth},
  }};
  return kNames;
}

std::span<const EnumName<Activation>> enum_names(Activation) {
  static constexpr std::array<EnumName<Activation>, 19> kNames{{
      {"gelu", Activation::kGelu},
      {"gelu_tanh", Activation::kGeluTanh},
      {"quick_gelu", Activation::kQuickGelu},
      {"silu", Activation::kSilu},
      {"relu", Activation::kRelu},
      {"squared_relu", Activation::kSquaredRelu},
      {"swiglu", Activation::kSwiglu},
      {"geglu", Activation::kGeglu},
      {"geglu_tanh", Activation::kGegluTanh},
      {"reglu", Activation::kReglu},
      {"swiglu_oai", Activation::kClampedSwiglu},
      {"gelu_new", Activation::kGeluTanh},
      {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"quick-gelu", Activation::kQuickGelu},
      {"squared-relu", Activation::kSquaredRelu},
      // NeMo's fast variants compute both projections in one product: the same function.
      {"fast-swiglu", Activation::kSwiglu},
      {"fast-geglu", Activation::kGeglu},
      {"fast-reglu", Activation::kReglu},
      {"swish", Activation::kSilu},
  }};
  return kNames;
}

std::span<const EnumName<BiasKind>> enum_names(BiasKind) {
  // NeMo's key is a boolean.
  static constexpr std::array<EnumName<BiasKind>, 5> kNames{{
      {"all", BiasKind::kAll},
      {"qkv", BiasKind::kQkv},
      {"none", BiasKind::kNone},
      {"true", BiasKind::kAll},
      {"false", BiasKind::kNone},
  }};
  return kNames;
}

std::span<const EnumName<RopeScaling>> enum_names(RopeScaling) {
  static constexpr std::array<EnumName<RopeScaling>, 6> kNames{{
      {"default", RopeScaling::kDefault},
      {"linear", RopeScaling::kLinear},
      {"dynamic", RopeScaling::kDynamic},
      {"llama3", RopeScaling::kLlama3},
      {"yarn", RopeScaling::kYarn},
      {"longrope", RopeScaling::kLongrope},
  }};
  return kNames;
}

std::span<const EnumName<RecomputeGranularity>> enum_names(RecomputeGranularity) {
  static constexpr std::array<EnumName<RecomputeGranularity>, 4> kNames{{
      {"none", RecomputeGranularity::kNone},
      {"null", RecomputeGranularity::kNone},
      {"selective", RecomputeGranularity::kSelective},
      {"full", RecomputeGranularity::kFull},
  }};
  return kNames;
}

std::span<const EnumName<RecomputeMethod>> enum_names(RecomputeMethod) {
  static constexpr std::array<EnumName<RecomputeMethod>, 2> kNames{{
      {"uniform", RecomputeMethod::kUniform},
      {"block", RecomputeMethod::kBlock},
  }};
  return kNames;
}

bool is_gated(Activation activation) {
  return activation == Activation::kSwiglu || activation == Activation::kGeglu ||
         activation == Activation::kGegluTanh || activation == Activation::kReglu ||
         activation == Activation::kClampedSwiglu;
}

Activation ModelConfig::masked_head_activation() const {
  if (bert.head_activation) return *bert.head_activation;
  if (bert.first_position > 0) return Activation::kGelu;
  switch (activation) {
    case Activation::kSwiglu:
      return Activation::kSilu;
    case Activation::kGeglu:
      return Activation::kGelu;
    case Activation::kGegluTanh:
      return Activation::kGeluTanh;
    case Activation::kReglu:
      return Activation::kRelu;
    default:
      return activation;
  }
}

std::int64_t ModelConfig::ffn_size() const {
  if (ffn_hidden_size) return *ffn_hidden_size;
  return is_gated(activation) ? hidden_size * 8 / 3 / 64 * 64 : 4 * hidden_size;
}
bool ModelConfig::has_qkv_bias() const { return qkv_bias.value_or(bias != BiasKind::kNone); }
bool ModelConfig::has_attention_output_bias() const {
  return attention_output_bias.value_or(bias == BiasKind::kAll);
}
bool ModelConfig::has_mlp_bias() const { return mlp_bias.value_or(bias == BiasKind::kAll); }
std::int64_t ModelConfig::encoder_layers() const {
  return kind == ModelKind::kT5 ? t5.encoder_layers.value_or(num_layers / 2) : 0;
}
Pooling ModelConfig::pooling() const {
  return task.pooling.value_or(kind == ModelKind::kGpt ? Pooling::kLastToken : Pooling::kMean);
}
std::int64_t ModelConfig::source_length() const { return kind == ModelKind::kT5 ? encoder_seq_length : 0; }
std::int64_t ModelConfig::sample_length() const {
  return encoder_seq_length + (kind == ModelKind::kT5 ? t5.seq_length_dec : 0);
}
std::int64_t ModelConfig::moe_ffn_size() const { return moe.moe_ffn_hidden_size.value_or(ffn_size()); }
std::int64_t ModelConfig::query_groups() const { return num_query_groups.value_or(num_attention_heads); }
std::int64_t ModelConfig::head_size() const {
  if (latent.multi_latent_attention) return latent.head_size();
  return kv_channels ? *kv_channels : hidden_size / num_attention_heads;
}
std::int64_t ModelConfig::max_positions() const {
  return max_position_embeddings.value_or(encoder_seq_length);
}
std::int64_t ModelConfig::rotary_channels() const {
  if (latent.multi_latent_attention) return latent.qk_pos_emb_head_dim;
  return static_cast<std::int64_t>(static_cast<double>(head_size()) * rotary_percentage);
}

}  // namespace stoa::model
