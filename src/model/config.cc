#include "model/config.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace stoa::model {

using config::EnumName;
using config::Section;

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

namespace {

// Bounds that keep every product of sizes far inside 64 bits.
constexpr double kMaxLayers = 10'000, kMaxSize = 1 << 20, kMaxSequence = 1 << 24;

void declare_rope_scaling(Section<RopeScalingConfig>& s) {
  s.field("type", &RopeScalingConfig::type)
      .alias("rope_type")
      .help("How rotary frequencies stretch beyond the length of training.");
  s.field("factor", &RopeScalingConfig::factor)
      .at_least(1)
      .help("Stretch; needed by linear, dynamic, llama3 and yarn.");
  s.field("original_max_position_embeddings", &RopeScalingConfig::original_max_position_embeddings)
      .range(1, kMaxSequence)
      .unit("tokens")
      .derived("max_position_embeddings")
      .help("Length before stretching (llama3, yarn, longrope).");
  s.field("low_freq_factor", &RopeScalingConfig::low_freq_factor)
      .above(0)
      .help("llama3: wavelengths above original/this are stretched.");
  s.field("high_freq_factor", &RopeScalingConfig::high_freq_factor)
      .above(0)
      .help("llama3: wavelengths below original/this are kept.");
  s.field("beta_fast", &RopeScalingConfig::beta_fast)
      .above(0)
      .help("yarn: turns within the original length from which on frequencies are kept.");
  s.field("beta_slow", &RopeScalingConfig::beta_slow)
      .above(0)
      .help("yarn: turns below which frequencies are fully stretched.");
  s.field("mscale", &RopeScalingConfig::mscale)
      .at_least(0)
      .help("yarn: scale of cosine and sine (with mscale_all_dim).");
  s.field("mscale_all_dim", &RopeScalingConfig::mscale_all_dim).at_least(0).help("yarn: divisor of mscale.");
  s.field("attention_factor", &RopeScalingConfig::attention_factor)
      .above(0)
      .derived("by formula of the type")
      .help("yarn, longrope: scale of cosine and sine.");
  s.field("truncate", &RopeScalingConfig::truncate)
      .help("yarn: round the borders of the ramp to whole dimensions.");
  s.field("short_factor", &RopeScalingConfig::short_factor)
      .above(0)
      .help("longrope: divisor per frequency up to the original length; rotary size / 2 values.");
  s.field("long_factor", &RopeScalingConfig::long_factor)
      .above(0)
      .help("longrope: divisor per frequency beyond the original length.");
  s.validate({"low_freq_factor", "high_freq_factor"}, [](const RopeScalingConfig& c) {
    require<ConfigError>(c.type != RopeScaling::kLlama3 || c.low_freq_factor < c.high_freq_factor,
                         "low_freq_factor {} must be below high_freq_factor {}", c.low_freq_factor,
                         c.high_freq_factor);
  });
  s.validate({"type", "factor"}, [](const RopeScalingConfig& c) {
    const bool needs = c.type == RopeScaling::kLinear || c.type == RopeScaling::kDynamic ||
                       c.type == RopeScaling::kLlama3 || c.type == RopeScaling::kYarn;
    require<ConfigError>(!needs || c.factor, "this type of rope scaling needs a factor (1 or above)");
    require<ConfigError>(
        c.type != RopeScaling::kDefault || !c.factor || *c.factor == 1,
        "factor {} has no effect with type default; name a type: linear, dynamic, llama3, yarn, longrope",
        c.factor.value_or(1));
  });
  s.validate({"mscale", "mscale_all_dim"}, [](const RopeScalingConfig& c) {
    require<ConfigError>(c.mscale.has_value() == c.mscale_all_dim.has_value(),
                         "mscale and mscale_all_dim count only together");
  });
}

void declare_recompute(Section<RecomputeConfig>& s) {
  s.field("activations_checkpoint_granularity", &RecomputeConfig::granularity)
      .help(
          "What the backward pass computes again to save memory: nothing, norms and activation "
          "functions (selective), or all of a layer but its input (full).");
  s.field("activations_checkpoint_method", &RecomputeConfig::method)
      .help(
          "With full. uniform: the input of every n-th layer is kept, the rest computed again; block: the "
          "first n layers are computed again.");
  s.field("activations_checkpoint_num_layers", &RecomputeConfig::num_layers)
      .range(0, kMaxLayers)
      .derived("1 with uniform; all layers with block")
      .help("n of the method.");
  s.section("", &RecomputeConfig::offload, declare_offload);
  s.validate({"activations_checkpoint_granularity", "cpu_offloading"}, [](const RecomputeConfig& c) {
    require<ConfigError>(
        !c.offload.cpu_offloading || c.granularity != RecomputeGranularity::kFull,
        "cpu_offloading with activations_checkpoint_granularity full: layers that are made again "
        "keep nothing to move; give granularity none or selective, or cpu_offloading false");
  });
  s.validate({"activations_checkpoint_granularity", "activations_checkpoint_method",
              "activations_checkpoint_num_layers"},
             [](const RecomputeConfig& c) {
               const bool full = c.granularity == RecomputeGranularity::kFull;
               require<ConfigError>(!full || c.method, "granularity full needs a method: uniform or block");
               require<ConfigError>(full || !c.method, "a method counts only with granularity full");
               require<ConfigError>(full || c.num_layers.value_or(0) == 0,
                                    "activations_checkpoint_num_layers counts only with granularity full");
               require<ConfigError>(
                   !full || c.method != RecomputeMethod::kUniform || c.num_layers.value_or(1) >= 1,
                   "uniform needs activations_checkpoint_num_layers of at least 1");
             });
}

}  // namespace

void declare(Section<ModelConfig>& s) {
  using C = ModelConfig;
  s.field("kind", &C::kind)
      .help(
          "Kind of model: decoders of the GPT family, encoders (BERT, RoBERTa), or encoder-decoders (T5, "
          "mT5).");
  s.field("num_layers", &C::num_layers).range(1, kMaxLayers).help("Transformer layers.");
  s.field("hidden_size", &C::hidden_size).range(1, kMaxSize).help("Width of the residual stream.");
  s.field("ffn_hidden_size", &C::ffn_hidden_size)
      .range(1, 8 * kMaxSize)
      .derived("4 x hidden_size; gated: 8/3 x hidden_size rounded down to a multiple of 64")
      .help("Inner width of the MLP.");
  s.field("num_attention_heads", &C::num_attention_heads).range(1, 65536).help("Query heads.");
  s.field("num_query_groups", &C::num_query_groups)
      .range(1, 65536)
      .derived("num_attention_heads")
      .help("Key and value heads: fewer than query heads is grouped-query attention, 1 is multi-query.");
  s.field("kv_channels", &C::kv_channels)
      .range(1, 65536)
      .derived(
          "hidden_size / num_attention_heads; with multi_latent_attention qk_head_dim + qk_pos_emb_head_dim")
      .help("Width of a head.");
  s.field("encoder_seq_length", &C::encoder_seq_length)
      .alias("seq_length")
      .range(1, kMaxSequence)
      .unit("tokens")
      .help("Length of a training sample. One value with model.data.seq_length: give either.");
  s.field("max_position_embeddings", &C::max_position_embeddings)
      .range(1, kMaxSequence)
      .unit("tokens")
      .derived("encoder_seq_length")
      .help("Longest sequence that the model takes; at least encoder_seq_length.");
  s.field("first_position", &C::first_position)
      .range(0, 65536)
      .help("Row of the table of learned positions that the first token has: 2 in OPT. Of kind gpt.");
  s.field("position_embedding_type", &C::position_embedding_type)
      .help(
          "How positions enter: a learned table, rotation of q and k, a bias of scores that falls with the "
          "distance (alibi), a trained bias by distance (relative, of kind t5), or not at all.");
  s.field("rotary_percentage", &C::rotary_percentage)
      .above(0)
      .range(0, 1)
      .help("Share of each head that rotates.");
  s.field("rotary_base", &C::rotary_base).above(1).help("Base of the rotary frequencies (theta).");
  s.field("no_rope_layers", &C::no_rope_layers)
      .help("Layers whose queries and keys do not rotate, by number from 0 (SmolLM 3, Cohere 2).");
  s.field("rope_local_base_freq", &C::rope_local_base_freq)
      .above(1)
      .derived("rotary_base, scaled as rope_scaling says")
      .help("Rotary base of layers with a sliding window, never scaled (Gemma 3).");
  s.section("rope_scaling", &C::rope_scaling, declare_rope_scaling,
            "Scaling of the rotary frequencies (Hugging Face's rope_scaling).");
  s.field("normalization", &C::normalization)
      .help("Normalisation before attention, before the MLP, and at the end.");
  s.field("layernorm_epsilon", &C::layernorm_epsilon).above(0).range(0, 1).help("Added to the variance.");
  s.field("norm_placement", &C::norm_placement)
      .help(
          "Where attention and MLP are normalised: what they read (before), what they add to the residual "
          "stream (after: OLMo 2), or both (Gemma 2).");
  s.field("norm_weight", &C::norm_weight).help("Norms have weights; false: they have no parameters (OLMo).");
  s.field("norm_bias", &C::norm_bias).help("LayerNorms have a bias; RMSNorms have none.");
  s.field("use_parallel_residual", &C::use_parallel_residual)
      .help("Attention and MLP of a layer read the same stream (GPT-NeoX); with norm_placement before.");
  s.field("num_ln_in_parallel_attn", &C::num_ln_in_parallel_attn)
      .range(1, 2)
      .help(
          "With use_parallel_residual: attention and MLP have norms of their own (2), or share one (1: "
          "GPT-J, Phi, Cohere).");
  s.field("activation", &C::activation)
      .nemo_default("gelu")
      .help(
          "Nonlinearity of the MLP. gelu is the erf form, gelu_tanh GPT-2's approximation; swiglu, geglu, "
          "geglu_tanh and reglu are gated; swiglu_oai is gpt-oss' gate, which limits what it reads.");
  s.field("activation_alpha", &C::activation_alpha)
      .above(0)
      .range(0, 1000)
      .help("Of swiglu_oai: y = (up + 1) gate sigmoid(alpha gate).");
  s.field("activation_limit", &C::activation_limit)
      .above(0)
      .range(0, 1e6)
      .help("Of swiglu_oai: gate is at most this, up within plus and minus this.");
  s.field("bias", &C::bias)
      .help(
          "Which linear layers have a bias: all (experts and their routers among them), only q/k/v, none "
          "(true and false: all and none); the three keys below make exceptions.");
  s.field("qkv_bias", &C::qkv_bias)
      .derived("as bias says")
      .help(
          "Whether the projections of queries, keys and values have a bias (latent attention: those of the "
          "stream to the latent vectors).");
  s.field("attention_output_bias", &C::attention_output_bias)
      .derived("as bias says")
      .help("Whether the output projection of attention has a bias.");
  s.field("mlp_bias", &C::mlp_bias)
      .derived("as bias says")
      .help("Whether the linear layers of the MLP have a bias.");
  s.field("share_embeddings_and_output_weights", &C::share_embeddings_and_output_weights)
      .help("Output head = token embedding (tied).");
  s.field("lm_head_bias", &C::lm_head_bias)
      .help("The output head has a bias: a number per id, added to its logits (GPT-J, Phi).");
  s.field("qk_layernorm", &C::qk_layernorm).help("Normalise q and k per head before positions are applied.");
  s.field("qk_layernorm_after_rope", &C::qk_layernorm_after_rope)
      .help("Normalise them after the rotation instead (Hunyuan).");
  s.field("qk_layernorm_all_heads", &C::qk_layernorm_all_heads)
      .help("That norm goes over all heads of a token together (OLMo 2).");
  s.field("window_size", &C::window_size)
      .range(1, kMaxSequence)
      .unit("tokens")
      .help(
          "Sliding window: keys that a query sees, itself included; of an encoder so many to either side. "
          "null: all.");
  s.field("window_first_layer", &C::window_first_layer)
      .range(0, kMaxLayers)
      .help("Layers below this one see everything. null: every layer has the window.");
  s.field("window_attn_skip_freq", &C::window_attn_skip_freq)
      .range(1, kMaxLayers)
      .help("Every n-th layer sees everything, the others have the window. null: no such layer.");
  s.field("window_layers", &C::window_layers)
      .help(
          "Layers with the window, by number from 0, where neither window_first_layer nor "
          "window_attn_skip_freq can say it. Empty: no such list.");
  s.field("query_pre_attn_scalar", &C::query_pre_attn_scalar)
      .above(0)
      .derived("kv_channels")
      .help("Attention scores are divided by the root of it.");
  s.field("attention_sinks", &C::attention_sinks)
      .help(
          "A trained logit per head takes part in every softmax of attention and adds nothing to its output "
          "(gpt-oss).");
  s.field("softmax_scale", &C::softmax_scale)
      .above(0)
      .derived("1 / sqrt(kv_channels)")
      .help("Factor of attention scores (Granite's attention_multiplier).");
  s.field("attn_logit_softcapping", &C::attn_logit_softcapping)
      .above(0)
      .help("Attention scores become cap x tanh(score / cap) (Gemma 2). null: they do not.");
  s.field("final_logit_softcapping", &C::final_logit_softcapping)
      .above(0)
      .help("Logits become cap x tanh(logit / cap) (Gemma 2). null: they do not.");
  s.field("apply_embedding_scaling", &C::apply_embedding_scaling)
      .help("Token embeddings are multiplied by the root of hidden_size (Gemma).");
  s.field("embedding_layernorm", &C::embedding_layernorm).help("Normalise the embeddings (BLOOM).");
  s.field("embedding_multiplier", &C::embedding_multiplier)
      .above(0)
      .help("Factor of token embeddings (Granite; MiniCPM's scale_emb).");
  s.field("residual_multiplier", &C::residual_multiplier)
      .above(0)
      .help(
          "Factor of what attention and MLP add to the residual stream (Granite; MiniCPM's scale_depth / "
          "sqrt(num_layers)).");
  s.field("logit_scale", &C::logit_scale)
      .above(0)
      .help("Factor of logits (Cohere; 1 / logits_scaling of Granite).");
  s.field("attention_output_gate", &C::attention_output_gate)
      .help(
          "What the heads of softmax attention give is multiplied by the sigmoid of a projection of its own "
          "(Qwen3-Next).");
  s.field("hidden_dropout", &C::hidden_dropout)
      .range(0, 1)
      .below(1)
      .nemo_default("0.1")
      .help("Dropout before each residual addition.");
  s.field("attention_dropout", &C::attention_dropout)
      .range(0, 1)
      .below(1)
      .nemo_default("0.1")
      .help("Dropout of attention weights.");
  s.field("embedding_dropout", &C::embedding_dropout)
      .range(0, 1)
      .below(1)
      .help("Dropout after the embedding.");
  s.field("label_smoothing", &C::label_smoothing)
      .range(0, 1)
      .below(1)
      .help(
          "Share of every target that is spread evenly over the vocabulary, in the loss that is trained. "
          "Validation reports the plain loss.");
  s.field("z_loss_coeff", &C::z_loss_coeff)
      .range(0, 1)
      .help(
          "Weight of the squared logarithm of the softmax's denominator, added to the loss that is trained "
          "(PaLM: 1e-4): keeps logits small.");
  s.field("fp32_residual_connection", &C::fp32_residual_connection)
      .nemo_default("false")
      .help(
          "Keep the residual stream in fp32 while layers compute in the precision of the run, as PyTorch's "
          "autocast does.");
  s.field("init_method_std", &C::init_method_std).range(0, 10).help("Standard deviation of initial weights.");
  s.field("use_scaled_init_method", &C::use_scaled_init_method)
      .help("Initial output projections are divided by sqrt(2 x num_layers).");
  s.field("vocab_size", &C::vocab_size)
      .range(1, 1 << 28)
      .derived("the tokenizer's")
      .help("Rows of the embedding, without padding.");
  s.field("make_vocab_size_divisible_by", &C::make_vocab_size_divisible_by)
      .range(1, 65536)
      .help("Rows are padded to a multiple of this in memory; never in files, never in results.");
  s.field("seed", &C::seed)
      .range(0, 9007199254740992.0)
      .help("Seed of initial weights, data order and dropout.");
  s.section("bert", &C::bert, declare_bert, "Of models of kind bert.");
  s.section("", &C::latent, declare_latent);
  s.section("", &C::linear, declare_linear_attention);
  s.section("t5", &C::t5, declare_t5, "Of models of kind t5: encoder and decoder.");
  s.section("", &C::moe, declare_moe);
  s.section("", &C::mup, declare_mup);
  s.section("", &C::fp8, declare_fp8);
  s.section("", &C::recompute, declare_recompute);

  s.resolve([](C& c) {
    c.ffn_hidden_size = c.ffn_size();
    if (c.moe.num_moe_experts) c.moe.moe_ffn_hidden_size = c.moe_ffn_size();
    c.num_query_groups = c.query_groups();
    if (c.latent.multi_latent_attention || c.hidden_size % c.num_attention_heads == 0)
      c.kv_channels = c.kv_channels.value_or(c.head_size());
    c.max_position_embeddings = c.max_positions();
  });
  s.validate({"hidden_size", "num_attention_heads", "kv_channels", "num_query_groups", "ffn_hidden_size",
              "encoder_seq_length", "max_position_embeddings"},
             [](const C& c) { validate(c); });
}

namespace {

void validate_task(const BertConfig& c) {
  const bool classes = c.classifies();
  const auto found = static_cast<std::int64_t>(c.labels.size());
  require<ConfigError>(!classes || found >= (c.task == BertTask::kSequenceClassification ? 1 : 2),
                       "model.bert.labels names {} classes, expected 2 or more, as in [negative, positive]",
                       found);
  require<ConfigError>(classes || found == 0,
                       "model.bert.labels are the classes of task sequence_classification or "
                       "token_classification: give one of these, or leave them out");
  require<ConfigError>(classes || !c.classifier_dropout,
                       "model.bert.classifier_dropout is of task sequence_classification or "
                       "token_classification: leave it out");
  for (auto label = c.labels.begin(); label != c.labels.end(); ++label)
    require<ConfigError>(!label->empty() && std::find(c.labels.begin(), label, *label) == label,
                         "model.bert.labels: '{}' is empty or stands twice", *label);
}

// What models of kind gpt alone have.
void validate_decoder_options(const ModelConfig& c) {
  const std::string kind = c.kind == ModelKind::kBert ? "bert" : "t5";
  require<ConfigError>(
      c.kind == ModelKind::kGpt ||
          (c.embedding_multiplier == 1 && c.residual_multiplier == 1 && c.logit_scale == 1 &&
           !c.softmax_scale && !c.lm_head_bias && c.first_position == 0),
      "kind {} has none of embedding_multiplier, residual_multiplier, logit_scale, softmax_scale, "
      "lm_head_bias and first_position: leave them out",
      kind);
  require<ConfigError>(!c.softmax_scale || !c.query_pre_attn_scalar,
                       "softmax_scale and query_pre_attn_scalar say the same thing: give one of them");
  require<ConfigError>(!c.lm_head_bias || c.logit_scale == 1,
                       "lm_head_bias with logit_scale {}: a head has one or the other", c.logit_scale);
  require<ConfigError>(
      c.first_position == 0 || c.position_embedding_type == PositionEmbedding::kLearnedAbsolute,
      "first_position {} counts only with position_embedding_type learned_absolute", c.first_position);
  require<ConfigError>(
      c.embedding_multiplier == 1 || c.position_embedding_type != PositionEmbedding::kLearnedAbsolute,
      "embedding_multiplier goes without learned positions: give position_embedding_type rope, alibi or "
      "none");
  require<ConfigError>(
      c.residual_multiplier == 1 || c.norm_placement == NormPlacement::kBefore,
      "residual_multiplier goes with norm_placement before: a norm of a branch undoes a factor of it");
  require<ConfigError>(c.num_ln_in_parallel_attn == 2 || c.use_parallel_residual,
                       "num_ln_in_parallel_attn 1 counts only with use_parallel_residual");
  require<ConfigError>(c.norm_bias || c.normalization == Normalization::kLayerNorm,
                       "norm_bias counts only with normalization layernorm: leave it out");
  require<ConfigError>(c.norm_weight || !c.norm_bias || c.normalization == Normalization::kRmsNorm,
                       "norm_weight false with norm_bias true: a norm without weights has no bias either, "
                       "give norm_bias false");
  require<ConfigError>(c.norm_weight || !c.mup.use_mup,
                       "use_mup holds a factor in the last norm's weight: leave out norm_weight");
  require<ConfigError>(
      !c.qk_layernorm_after_rope || (c.qk_layernorm && c.position_embedding_type == PositionEmbedding::kRope),
      "qk_layernorm_after_rope counts only with qk_layernorm and position_embedding_type rope");
}

void validate_no_rope_layers(const ModelConfig& c) {
  const auto& layers = c.no_rope_layers;
  require<ConfigError>(layers.empty() || c.position_embedding_type == PositionEmbedding::kRope,
                       "no_rope_layers counts only with position_embedding_type rope");
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
      "window_size and relative_attention_num_buckets are of different encoders: give one of them");
  require<ConfigError>(c.share_embeddings_and_output_weights,
                       "the head of kind bert is tied to the token embedding: leave out "
                       "share_embeddings_and_output_weights");
  require<ConfigError>(!c.query_pre_attn_scalar && !c.attn_logit_softcapping && !c.final_logit_softcapping &&
                           !c.apply_embedding_scaling && !c.embedding_layernorm,
                       "kind bert has one form of layers: leave out query_pre_attn_scalar, "
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
      c.bert.task != BertTask::kQuestionAnswering || (c.label_smoothing == 0 && c.z_loss_coeff == 0),
      "task question_answering has the plain loss: leave out label_smoothing and z_loss_coeff");
  require<ConfigError>(c.bert.lm_head || !c.bert.sentence_question(),
                       "model.bert.binary_head needs model.bert.lm_head");
  require<ConfigError>(c.bert.first_position == 0 || !c.bert.sentence_question(),
                       "first_position {} is RoBERTa's, which has no binary_head", c.bert.first_position);
  require<ConfigError>(
      c.bert.first_position == 0 || c.position_embedding_type == PositionEmbedding::kLearnedAbsolute,
      "first_position {} counts only with position_embedding_type learned_absolute", c.bert.first_position);
  require<ConfigError>(!c.moe.num_moe_experts, "kind bert has no experts: leave out num_moe_experts");
}

void validate_latent(const ModelConfig& c) {
  const LatentConfig& l = c.latent;
  require<ConfigError>(c.kind == ModelKind::kGpt, "multi_latent_attention is of kind gpt: leave it out");
  require<ConfigError>(
      c.position_embedding_type == PositionEmbedding::kRope && c.rotary_percentage == 1 && !c.window_size &&
          !c.qk_layernorm && !c.attn_logit_softcapping && !c.query_pre_attn_scalar && !c.softmax_scale &&
          c.no_rope_layers.empty(),
      "multi_latent_attention has rotary positions and no other form of scores: give position_embedding_type "
      "rope, and leave out rotary_percentage, no_rope_layers, window_size, qk_layernorm, "
      "attn_logit_softcapping, query_pre_attn_scalar and softmax_scale");
  require<ConfigError>(
      !c.has_mlp_bias() && c.normalization == Normalization::kRmsNorm,
      "multi_latent_attention goes with an MLP without bias, and RMSNorm of its latent vectors: give bias "
      "none and normalization rmsnorm");
  require<ConfigError>(c.query_groups() == c.num_attention_heads,
                       "num_query_groups {} with multi_latent_attention: every head has keys of its own, "
                       "expected {} or nothing",
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
      "t5.relative_bias_per_layer counts only with position_embedding_type relative");
  require<ConfigError>(!c.window_size, "kind t5 has no sliding window: leave out window_size");
  require<ConfigError>(!c.qk_layernorm, "kind t5 has no norm of q and k: leave out qk_layernorm");
  require<ConfigError>(c.query_groups() == c.num_attention_heads,
                       "kind t5 has as many key heads as query heads: leave out num_query_groups");
  require<ConfigError>(!c.moe.num_moe_experts, "kind t5 has no experts: leave out num_moe_experts");
  require<ConfigError>(c.norm_placement == NormPlacement::kBefore && !c.use_parallel_residual &&
                           !c.embedding_layernorm && !c.query_pre_attn_scalar && !c.attn_logit_softcapping &&
                           c.has_qkv_bias() == c.has_mlp_bias() &&
                           c.has_attention_output_bias() == c.has_mlp_bias(),
                       "kind t5 has norms before its branches, one after the other, and biases everywhere or "
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
        "rotary positions turn pairs: {} of {} channels (rotary_percentage {}) is {}", c.rotary_channels(),
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
                         "rope_scaling counts only with position_embedding_type rope");
  }
  validate_decoder_options(c);
  validate_no_rope_layers(c);
  validate_task(c.bert);
  require<ConfigError>(c.kind == ModelKind::kBert || !c.bert.labelled(),
                       "model.bert.task is of kind bert: leave it out, or give kind bert");
  if (c.kind == ModelKind::kBert) validate_bert(c);
  if (c.latent.multi_latent_attention) validate_latent(c);
  if (c.kind == ModelKind::kT5) validate_t5(c);
  require<ConfigError>(
      c.kind == ModelKind::kT5 || c.position_embedding_type != PositionEmbedding::kRelative,
      "position_embedding_type relative is of kind t5; expected learned_absolute, rope or none");
  validate(c.moe, c.num_layers);
  validate(c.linear, c.num_layers);
  require<ConfigError>(
      !c.linear.any() || (c.kind == ModelKind::kGpt && !c.mup.use_mup),
      "linear attention (linear_attention_freq, linear_attention_layers) is of kind gpt without "
      "use_mup: leave it out, or them");
  require<ConfigError>(
      !c.attention_output_gate || (c.kind == ModelKind::kGpt && !c.latent.multi_latent_attention),
      "attention_output_gate is of kind gpt without multi_latent_attention: leave it out");
  if (c.mup.use_mup) {
    require<ConfigError>(c.kind == ModelKind::kGpt, "use_mup is of kind gpt: leave it out");
    require<ConfigError>(
        !c.query_pre_attn_scalar && !c.softmax_scale && !c.apply_embedding_scaling &&
            c.embedding_multiplier == 1 && c.logit_scale == 1,
        "use_mup says how scores, embeddings and logits go with the width: leave out "
        "query_pre_attn_scalar, softmax_scale, apply_embedding_scaling, embedding_multiplier "
        "and logit_scale");
  }
  require<ConfigError>(
      !c.moe.moe_shared_expert_intermediate_size || !c.has_mlp_bias(),
      "shared experts have no biases: give bias none or qkv with moe_shared_expert_intermediate_size");
  const bool clamped = c.activation == Activation::kClampedSwiglu;
  require<ConfigError>(clamped || (c.activation_alpha == 1.702 && c.activation_limit == 7.0),
                       "activation_alpha and activation_limit are of activation swiglu_oai: leave them out");
  require<ConfigError>((!clamped && !c.attention_sinks) || c.kind == ModelKind::kGpt,
                       "activation swiglu_oai and attention_sinks are of kind gpt: leave them out");
  require<ConfigError>(!c.attention_sinks || !c.latent.multi_latent_attention,
                       "multi_latent_attention has no attention_sinks: leave them out");
  require<ConfigError>(!c.use_parallel_residual || c.norm_placement == NormPlacement::kBefore,
                       "use_parallel_residual with norm_placement {}: expected before",
                       c.norm_placement == NormPlacement::kAfter ? "after" : "both");
  require<ConfigError>(c.qk_layernorm || !c.qk_layernorm_all_heads,
                       "qk_layernorm_all_heads counts only with qk_layernorm");
  require<ConfigError>(c.window_size || !c.window_first_layer,
                       "window_first_layer counts only with window_size");
  require<ConfigError>(
      !c.apply_embedding_scaling || c.position_embedding_type != PositionEmbedding::kLearnedAbsolute,
      "apply_embedding_scaling goes without learned positions: give position_embedding_type rope, alibi or "
      "none");
  require<ConfigError>(c.window_size || !c.window_attn_skip_freq,
                       "window_attn_skip_freq counts only with window_size");
  require<ConfigError>(c.window_size || c.window_layers.empty(),
                       "window_layers counts only with window_size");
  require<ConfigError>(c.window_layers.empty() || (!c.window_first_layer && !c.window_attn_skip_freq),
                       "window_layers says which layers have the window: leave out window_first_layer and "
                       "window_attn_skip_freq");
  for (auto layer = c.window_layers.begin(); layer != c.window_layers.end(); ++layer) {
    require<ConfigError>(*layer >= 0 && *layer < c.num_layers,
                         "window_layers names layer {}, there are 0 to {}", *layer, c.num_layers - 1);
    require<ConfigError>(std::find(c.window_layers.begin(), layer, *layer) == layer,
                         "window_layers names layer {} twice", *layer);
  }
  require<ConfigError>(
      !c.rope_local_base_freq || (c.window_size && c.position_embedding_type == PositionEmbedding::kRope),
      "rope_local_base_freq counts only with window_size and position_embedding_type rope");
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
