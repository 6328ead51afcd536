// The keys of a model: ranges, defaults and what each means.
#include "base/error.h"
#include "model/config.h"

namespace stoa::model {

using config::Section;

namespace {

// Bounds that keep every product of sizes far inside 64 bits.
constexpr double kMaxLayers = 10'000, kMaxSize = 1 << 20, kMaxSequence = 1 << 24;

void declare_rope_scaling(Section<RopeScalingConfig>& s) {
  s.field("type", &RopeScalingConfig::type)
      .alias("rope_type")
      .help("How rotary frequencies are scaled beyond the training length.");
  s.field("factor", &RopeScalingConfig::factor)
      .at_least(1)
      .help("Scaling factor; needed by linear, dynamic, llama3 and yarn.");
  s.field("original_max_position_embeddings", &RopeScalingConfig::original_max_position_embeddings)
      .range(1, kMaxSequence)
      .unit("tokens")
      .derived("max_position_embeddings")
      .help("Length before scaling (llama3, yarn, longrope).");
  s.field("low_freq_factor", &RopeScalingConfig::low_freq_factor)
      .above(0)
      .help("llama3: wavelengths above original/this are scaled.");
  s.field("high_freq_factor", &RopeScalingConfig::high_freq_factor)
      .above(0)
      .help("llama3: wavelengths below original/this are kept.");
  s.field("beta_fast", &RopeScalingConfig::beta_fast)
      .above(0)
      .help("yarn: rotations within the original length above which frequencies are kept (beta_fast).");
  s.field("beta_slow", &RopeScalingConfig::beta_slow)
      .above(0)
      .help("yarn: rotations below which frequencies are fully scaled (beta_slow).");
  s.field("mscale", &RopeScalingConfig::mscale)
      .at_least(0)
      .help("yarn: scale of cosine and sine (with mscale_all_dim).");
  s.field("mscale_all_dim", &RopeScalingConfig::mscale_all_dim).at_least(0).help("yarn: divisor of mscale.");
  s.field("attention_factor", &RopeScalingConfig::attention_factor)
      .above(0)
      .derived("by the formula of the type")
      .help("yarn, longrope: scale of cosine and sine.");
  s.field("truncate", &RopeScalingConfig::truncate)
      .help("yarn: round the bounds of the ramp to whole dimensions.");
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
                         "mscale and mscale_all_dim are used only together");
  });
}

void declare_recompute(Section<RecomputeConfig>& s) {
  s.field("activations_checkpoint_granularity", &RecomputeConfig::granularity)
      .help(
          "What the backward pass recomputes to save memory: nothing, norms and activation functions "
          "(selective), or everything in a layer except its input (full).");
  s.field("activations_checkpoint_method", &RecomputeConfig::method)
      .help(
          "With full. uniform: the input of every n-th layer is kept, the rest recomputed; block: the first "
          "n layers are recomputed.");
  s.field("activations_checkpoint_num_layers", &RecomputeConfig::num_layers)
      .range(0, kMaxLayers)
      .derived("1 with uniform; all layers with block")
      .help("n of the method.");
  s.section("", &RecomputeConfig::offload, declare_offload);
  s.validate({"activations_checkpoint_granularity", "cpu_offloading"}, [](const RecomputeConfig& c) {
    require<ConfigError>(!c.offload.cpu_offloading || c.granularity != RecomputeGranularity::kFull,
                         "cpu_offloading with activations_checkpoint_granularity full: recomputed layers "
                         "keep nothing to move; give granularity none or selective, or cpu_offloading false");
  });
  s.validate({"activations_checkpoint_granularity", "activations_checkpoint_method",
              "activations_checkpoint_num_layers"},
             [](const RecomputeConfig& c) {
               const bool full = c.granularity == RecomputeGranularity::kFull;
               require<ConfigError>(!full || c.method, "granularity full needs a method: uniform or block");
               require<ConfigError>(full || !c.method, "a method is used only with granularity full");
               require<ConfigError>(full || c.num_layers.value_or(0) == 0,
                                    "activations_checkpoint_num_layers is used only with granularity full");
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
      .help("Longest sequence that the model accepts; at least encoder_seq_length.");
  s.field("first_position", &C::first_position)
      .range(0, 65536)
      .help("Row of the table of learned positions for the first token: 2 in OPT. Kind gpt only.");
  s.field("position_embedding_type", &C::position_embedding_type)
      .help(
          "Kind of positions: a learned table, rotary (rope), a linear bias of attention scores by distance "
          "(alibi), a trained bias by distance (relative, kind t5 only), or none.");
  s.field("rotary_percentage", &C::rotary_percentage)
      .above(0)
      .range(0, 1)
      .help("Share of each head that rotates.");
  s.field("rotary_base", &C::rotary_base).above(1).help("Base of the rotary frequencies (theta).");
  s.field("no_rope_layers", &C::no_rope_layers)
      .help("Layers without rotary positions, numbered from 0 (SmolLM 3, Cohere 2).");
  s.field("rope_local_base_freq", &C::rope_local_base_freq)
      .above(1)
      .derived("rotary_base, with rope_scaling")
      .help("Rotary base of layers with a sliding window, never scaled (Gemma 3).");
  s.section("rope_scaling", &C::rope_scaling, declare_rope_scaling,
            "Scaling of the rotary frequencies (Hugging Face's rope_scaling).");
  s.field("normalization", &C::normalization)
      .help("Normalisation before attention, before the MLP, and at the end.");
  s.field("layernorm_epsilon", &C::layernorm_epsilon).above(0).range(0, 1).help("Added to the variance.");
  s.field("norm_placement", &C::norm_placement)
      .help(
          "Placement of norms around attention and MLP: on the input (before), on the output (after: OLMo "
          "2), or both (Gemma 2).");
  s.field("norm_weight", &C::norm_weight).help("Norms have weights; false: they have no parameters (OLMo).");
  s.field("norm_bias", &C::norm_bias).help("LayerNorms have a bias; RMSNorms have none.");
  s.field("use_parallel_residual", &C::use_parallel_residual)
      .help("Attention and MLP of a layer read the same stream (GPT-NeoX); with norm_placement before.");
  s.field("num_ln_in_parallel_attn", &C::num_ln_in_parallel_attn)
      .range(1, 2)
      .help(
          "With use_parallel_residual: attention and MLP have separate norms (2), or share one (1: GPT-J, "
          "Phi, Cohere).");
  s.field("activation", &C::activation)
      .nemo_default("gelu")
      .help(
          "Nonlinearity of the MLP. gelu is the erf form, gelu_tanh GPT-2's approximation; swiglu, geglu, "
          "geglu_tanh and reglu are gated; swiglu_oai is gpt-oss' gate, which clamps its input.");
  s.field("activation_alpha", &C::activation_alpha)
      .above(0)
      .range(0, 1000)
      .help("For swiglu_oai: y = (up + 1) gate sigmoid(alpha gate).");
  s.field("activation_limit", &C::activation_limit)
      .above(0)
      .range(0, 1e6)
      .help("For swiglu_oai: gate is clamped to at most this, up to plus and minus this.");
  s.field("bias", &C::bias)
      .help(
          "Which linear layers have a bias: all (experts and their routers among them), only q/k/v, none "
          "(true and false: all and none); the three keys below make exceptions.");
  s.field("qkv_bias", &C::qkv_bias)
      .derived("as set by bias")
      .help(
          "Whether the projections of queries, keys and values have a bias (latent attention: the "
          "projections of the residual stream to the latent vectors).");
  s.field("attention_output_bias", &C::attention_output_bias)
      .derived("as set by bias")
      .help("Whether the output projection of attention has a bias.");
  s.field("mlp_bias", &C::mlp_bias)
      .derived("as set by bias")
      .help("Whether the linear layers of the MLP have a bias.");
  s.field("share_embeddings_and_output_weights", &C::share_embeddings_and_output_weights)
      .help("Output head = token embedding (tied).");
  s.field("lm_head_bias", &C::lm_head_bias)
      .help("The output head has a bias, added to the logits (GPT-J, Phi, T5 of Megatron).");
  s.field("qk_layernorm", &C::qk_layernorm).help("Normalise q and k per head before positions are applied.");
  s.field("qk_layernorm_after_rope", &C::qk_layernorm_after_rope)
      .help("Normalise them after the rotation instead (Hunyuan).");
  s.field("qk_layernorm_all_heads", &C::qk_layernorm_all_heads)
      .help("Apply that norm over all heads of a token together (OLMo 2).");
  s.field("window_size", &C::window_size)
      .range(1, kMaxSequence)
      .unit("tokens")
      .help(
          "Sliding window: number of keys that a query attends to, including itself; in an encoder, the "
          "number on either side. null: all.");
  s.field("window_first_layer", &C::window_first_layer)
      .range(0, kMaxLayers)
      .help("Layers below this one have full attention. null: every layer has the window.");
  s.field("window_attn_skip_freq", &C::window_attn_skip_freq)
      .range(1, kMaxLayers)
      .help("Every n-th layer has full attention, the others have the window. null: no such layer.");
  s.field("window_layers", &C::window_layers)
      .help(
          "Layers with the window, numbered from 0, for patterns that window_first_layer and "
          "window_attn_skip_freq cannot express. Empty: no list.");
  s.field("query_pre_attn_scalar", &C::query_pre_attn_scalar)
      .above(0)
      .derived("kv_channels")
      .help("Attention scores are divided by the square root of this.");
  s.field("attention_sinks", &C::attention_sinks)
      .help(
          "A trained logit per head is included in every softmax of attention and contributes nothing to its "
          "output (gpt-oss).");
  s.field("softmax_scale", &C::softmax_scale)
      .above(0)
      .derived("1 / sqrt(kv_channels)")
      .help("Factor of attention scores (Granite's attention_multiplier).");
  s.field("attn_logit_softcapping", &C::attn_logit_softcapping)
      .above(0)
      .help("Attention scores become cap x tanh(score / cap) (Gemma 2). null: no cap.");
  s.field("final_logit_softcapping", &C::final_logit_softcapping)
      .above(0)
      .help("Logits become cap x tanh(logit / cap) (Gemma 2). null: no cap.");
  s.field("apply_embedding_scaling", &C::apply_embedding_scaling)
      .help("Token embeddings are multiplied by the square root of hidden_size (Gemma).");
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
          "The output of softmax attention is multiplied by the sigmoid of a separate projection "
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
          "Share of every target that is spread evenly over the vocabulary in the training loss. Validation "
          "reports the plain loss.");
  s.field("z_loss_coeff", &C::z_loss_coeff)
      .range(0, 1)
      .help(
          "Weight of the squared logarithm of the softmax denominator, added to the training loss (PaLM: "
          "1e-4): keeps logits small.");
  s.field("freeze", &C::freeze)
      .help(
          "Parameters that are not trained: beginnings of their names, as in "
          "[embedding, layers.0-3, '*.norm*']; '!layers.3' trains again what an earlier one froze. Frozen "
          "parameters have no gradient and no optimizer state.");
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
  s.section("", &C::task, declare_task);
  s.section("bert", &C::bert, declare_bert, "Models of kind bert.");
  s.section("", &C::latent, declare_latent);
  s.section("", &C::linear, declare_linear_attention);
  s.section("t5", &C::t5, declare_t5, "Models of kind t5: encoder and decoder.");
  s.section("", &C::moe, declare_moe);
  s.section("", &C::mup, declare_mup);
  s.section("peft", &C::peft, declare_peft, "Parameter-efficient tuning.");
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

}  // namespace stoa::model
