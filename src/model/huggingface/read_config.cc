#include <array>

#include "base/nearest.h"
#include "model/huggingface/config_json.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/stoa_config.h"

namespace stoa::model::huggingface {
namespace {

// Keys of every configuration of transformers that do not change what a causal language model computes.
constexpr std::array kIgnored{"architectures",
                              "model_type",
                              "transformers_version",
                              "use_cache",
                              "initializer_range",
                              "name_or_path",
                              "is_encoder_decoder",
                              "is_decoder",
                              "cross_attention_hidden_size",
                              "output_hidden_states",
                              "output_attentions",
                              "return_dict",
                              "return_dict_in_generate",
                              "output_scores",
                              "torchscript",
                              "use_bfloat16",
                              "pruned_heads",
                              "chunk_size_feed_forward",
                              "id2label",
                              "label2id",
                              "num_labels",
                              "problem_type",
                              "task_specific_params",
                              "finetuning_task",
                              "tokenizer_class",
                              "prefix",
                              "sep_token_id",
                              "decoder_start_token_id",
                              "max_length",
                              "min_length",
                              "do_sample",
                              "early_stopping",
                              "num_beams",
                              "num_beam_groups",
                              "diversity_penalty",
                              "temperature",
                              "top_k",
                              "top_p",
                              "typical_p",
                              "repetition_penalty",
                              "length_penalty",
                              "no_repeat_ngram_size",
                              "encoder_no_repeat_ngram_size",
                              "bad_words_ids",
                              "num_return_sequences",
                              "forced_bos_token_id",
                              "forced_eos_token_id",
                              "remove_invalid_values",
                              "exponential_decay_length_penalty",
                              "suppress_tokens",
                              "begin_suppress_tokens",
                              "tf_legacy_loss",
                              "gradient_checkpointing",
                              "auto_map",
                              "attn_implementation",
                              "pretraining_tp",
                              "n_ctx",
                              "summary_type",
                              "summary_use_proj",
                              "summary_activation",
                              "summary_proj_to_labels",
                              "summary_first_dropout",
                              "reorder_and_upcast_attn",
                              "unsloth_version",
                              "unsloth_fixed",
                              "use_mrope"};

RopeScaling rope_type_of(const std::string& type) {
  if (type == "su") return RopeScaling::kLongrope;
  constexpr std::array<std::pair<std::string_view, RopeScaling>, 6> kTypes{
      {{"default", RopeScaling::kDefault},
       {"linear", RopeScaling::kLinear},
       {"dynamic", RopeScaling::kDynamic},
       {"llama3", RopeScaling::kLlama3},
       {"yarn", RopeScaling::kYarn},
       {"longrope", RopeScaling::kLongrope}}};
  std::vector<std::string> known;
  for (const auto& [name, value] : kTypes) {
    if (name == type) return value;
    known.emplace_back(name);
  }
  fail<ConfigError>(
      "config.json: rope type '{}' is not known{}; known: default, linear, dynamic, llama3, yarn, longrope",
      type, did_you_mean(type, known));
}

void read_rope(JsonKeys& keys, ModelConfig& c, double default_base) {
  // 4.x: rope_theta and rope_scaling; 5.x: rope_parameters.
  c.rotary_base = keys.number("rope_theta").value_or(default_base);
  const auto* scaling = keys.object("rope_scaling");
  if (const auto* parameters = keys.object("rope_parameters")) scaling = parameters;
  const auto whole = [](JsonKeys& from) {
    require<ConfigError>(
        from.number("partial_rotary_factor").value_or(1) == 1,
        "config.json: partial_rotary_factor other than 1 is not supported for this model_type");
  };
  whole(keys);
  const auto original = keys.integer("original_max_position_embeddings", 1);
  if (!scaling) return;
  JsonKeys rope(*scaling, "rope_parameters.");
  whole(rope);
  RopeScalingConfig& s = c.rope_scaling;
  const auto old_name = rope.text("type");
  s.type = rope_type_of(rope.text("rope_type").value_or(old_name.value_or("default")));
  c.rotary_base = rope.number("rope_theta").value_or(c.rotary_base);
  s.factor = rope.number("factor");
  s.original_max_position_embeddings = rope.integer("original_max_position_embeddings", 1);
  if (original) s.original_max_position_embeddings = original;
  s.low_freq_factor = rope.number("low_freq_factor").value_or(1);
  s.high_freq_factor = rope.number("high_freq_factor").value_or(4);
  s.beta_fast = rope.number("beta_fast").value_or(32);
  s.beta_slow = rope.number("beta_slow").value_or(1);
  s.mscale = rope.number("mscale");
  s.mscale_all_dim = rope.number("mscale_all_dim");
  s.attention_factor = rope.number("attention_factor");
  s.truncate = rope.boolean("truncate").value_or(true);
  s.short_factor = rope.numbers("short_factor").value_or(std::vector<double>());
  s.long_factor = rope.numbers("long_factor").value_or(std::vector<double>());
  rope.finish("rope scaling");
  if (s.type == RopeScaling::kDefault) s.factor.reset();
  if (!s.factor && s.type == RopeScaling::kYarn && s.original_max_position_embeddings)
    s.factor =
        static_cast<double>(c.max_positions()) / static_cast<double>(*s.original_max_position_embeddings);
}

Activation plain_activation(const std::string& name) {
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::kGeluTanh;
  if (name == "quick_gelu") return Activation::kQuickGelu;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "relu") return Activation::kRelu;
  if (name == "relu2") return Activation::kSquaredRelu;
  fail<ConfigError>(
      "config.json: activation_function '{}' is not known; known: gelu, gelu_new, quick_gelu, silu, relu, "
      "relu2",
      name);
}

Activation gated_activation(const std::string& name) {
  if (name == "silu" || name == "swish") return Activation::kSwiglu;
  if (name == "gelu") return Activation::kGeglu;
  if (name == "relu") return Activation::kReglu;
  fail<ConfigError>("config.json: hidden_act '{}' is not known for a gated layer; known: silu, gelu, relu",
                    name);
}

void read_gpt2(JsonKeys& keys, ModelConfig& c) {
  c.vocab_size = keys.integer("vocab_size", 1).value_or(50257);
  c.hidden_size = keys.integer("n_embd", 1).value_or(768);
  c.num_layers = keys.integer("n_layer", 1).value_or(12);
  c.num_attention_heads = keys.integer("n_head", 1).value_or(12);
  c.ffn_hidden_size = keys.integer("n_inner", 1).value_or(4 * c.hidden_size);
  c.max_position_embeddings = keys.integer("n_positions", 1).value_or(1024);
  c.position_embedding_type = PositionEmbedding::kLearnedAbsolute;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_epsilon").value_or(1e-5);
  c.activation = plain_activation(keys.text("activation_function").value_or("gelu_new"));
  c.bias = BiasKind::kAll;
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.hidden_dropout = keys.number("resid_pdrop").value_or(0.1);
  c.attention_dropout = keys.number("attn_pdrop").value_or(0.1);
  c.embedding_dropout = keys.number("embd_pdrop").value_or(0.1);
  keys.only("scale_attn_weights", true);
  keys.only("scale_attn_by_inverse_layer_idx", false);
  keys.only("add_cross_attention", false);
}

// Sliding window from an explicit pattern, the flags of qwen, or mistral's rule.
void read_window(JsonKeys& keys, Family family, ModelConfig& c) {
  auto window = keys.integer("sliding_window", 1);
  std::int64_t first = 0;
  if (family == Family::kMistral && !keys.contains("sliding_window"))
    window = 4096;  // absent: the default; null: none
  if (family == Family::kQwen2 || family == Family::kQwen3 || family == Family::kQwen3Moe) {
    const bool use = keys.boolean("use_sliding_window").value_or(false);
    first = keys.integer("max_window_layers").value_or(28);
    if (!use)
      window.reset();
    else if (!window)
      window = 4096;
  }
  if (const auto pattern = keys.texts("layer_types")) {
    require<ConfigError>(static_cast<std::int64_t>(pattern->size()) == c.num_layers,
                         "config.json: layer_types has {} entries for {} layers", pattern->size(),
                         c.num_layers);
    first = 0;
    while (first < c.num_layers && (*pattern)[static_cast<std::size_t>(first)] == "full_attention") ++first;
    for (std::size_t i = static_cast<std::size_t>(first); i < pattern->size(); ++i)
      require<ConfigError>(
          (*pattern)[i] == "sliding_attention",
          "config.json: layer_types[{}] is '{}': supported are full_attention layers followed by "
          "sliding_attention layers",
          i, (*pattern)[i]);
    require<ConfigError>(first == c.num_layers || window.has_value(),
                         "config.json: layer_types has sliding layers, but there is no sliding_window");
  }
  if (!window || first >= c.num_layers) return;
  c.window_size = window;
  if (first > 0) c.window_first_layer = first;
}

// What the two families call differently is read under every name that either version of transformers writes.
void read_experts(JsonKeys& keys, Family family, ModelConfig& c) {
  MoeConfig& m = c.moe;
  const bool mixtral = family == Family::kMixtral;
  const auto local = keys.integer("num_local_experts", 2), plain = keys.integer("num_experts", 2);
  m.num_moe_experts = local ? local : plain ? plain : std::optional<std::int64_t>(mixtral ? 8 : 128);
  m.moe_router_topk = keys.integer("num_experts_per_tok", 1).value_or(mixtral ? 2 : 8);
  m.moe_ffn_hidden_size = mixtral ? c.ffn_size() : keys.integer("moe_intermediate_size", 1).value_or(768);
  m.moe_aux_loss_coeff = keys.number("router_aux_loss_coef").value_or(0.001);
  if (!keys.boolean("output_router_logits").value_or(false))
    m.moe_aux_loss_coeff = 0;  // as transformers trains
  if (mixtral) {
    const double jitter = keys.number("router_jitter_noise").value_or(0);
    require<ConfigError>(jitter == 0, "config.json: router_jitter_noise {} is not supported, only 0", jitter);
    return;
  }
  m.moe_router_pre_softmax = !keys.boolean("norm_topk_prob").value_or(false);
  const std::int64_t step = keys.integer("decoder_sparse_step", 1).value_or(1);
  const auto dense = keys.integers("mlp_only_layers");
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if ((l + 1) % step != 0 || std::find(dense.begin(), dense.end(), l) != dense.end())
      m.moe_dense_layers.push_back(l);
}

void read_llama(JsonKeys& keys, Family family, ModelConfig& c) {
  const bool moe = family == Family::kMixtral || family == Family::kQwen3Moe;
  const bool qwen3 = family == Family::kQwen3 || family == Family::kQwen3Moe;
  const bool qwen = family == Family::kQwen2 || qwen3;
  const bool mistral = family == Family::kMistral || family == Family::kMixtral;
  const std::int64_t vocabulary = qwen ? 151936 : 32000;
  const std::int64_t ffn = family == Family::kLlama      ? 11008
                           : mistral                     ? 14336
                           : family == Family::kQwen3Moe ? 6144
                                                         : 22016;
  c.vocab_size = keys.integer("vocab_size", 1).value_or(vocabulary);
  c.hidden_size = keys.integer("hidden_size", 1).value_or(4096);
  c.ffn_hidden_size = keys.integer("intermediate_size", 1).value_or(ffn);
  c.num_layers = keys.integer("num_hidden_layers", 1).value_or(32);
  c.num_attention_heads = keys.integer("num_attention_heads", 1).value_or(32);
  const std::int64_t groups = mistral                       ? 8
                              : family == Family::kQwen3Moe ? 4
                              : qwen                        ? 32
                                                            : c.num_attention_heads;
  const bool explicit_groups = keys.has("num_key_value_heads");
  c.num_query_groups =
      keys.integer("num_key_value_heads", 1).value_or(explicit_groups ? c.num_attention_heads : groups);
  c.kv_channels = keys.integer("head_dim", 1);
  if (!c.kv_channels && family == Family::kQwen3) c.kv_channels = 128;
  const std::int64_t positions = family == Family::kLlama ? 2048 : mistral ? 131072 : 32768;
  c.max_position_embeddings = keys.integer("max_position_embeddings", 1).value_or(positions);
  c.position_embedding_type = PositionEmbedding::kRope;
  c.normalization = Normalization::kRmsNorm;
  c.layernorm_epsilon = keys.number("rms_norm_eps").value_or(1e-6);
  c.activation = gated_activation(keys.text("hidden_act").value_or("silu"));
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  c.attention_dropout = keys.number("attention_dropout").value_or(0);
  c.qk_layernorm = qwen3;
  c.bias = family == Family::kQwen2 ? BiasKind::kQkv : BiasKind::kNone;
  if (family == Family::kLlama) {
    const bool attention = keys.boolean("attention_bias").value_or(false),
               mlp = keys.boolean("mlp_bias").value_or(false);
    require<ConfigError>(attention == mlp,
                         "config.json: attention_bias {} with mlp_bias {} is not supported, only both alike",
                         attention, mlp);
    if (attention) c.bias = BiasKind::kAll;
  } else {
    keys.only("attention_bias", false);
    read_window(keys, family, c);
  }
  read_rope(keys, c, family == Family::kMixtral ? 1e6 : 10000);
  if (moe) read_experts(keys, family, c);
}

}  // namespace

ModelDescription read_config(std::string_view text) {
  // Deep nesting has no meaning here and would cost stack.
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    require<ConfigError>(depth < 32, "config.json is nested more than 32 deep");
    return true;
  };
  const nlohmann::json json = nlohmann::json::parse(text, shallow, false);
  require<ConfigError>(json.is_object(), "config.json is not a JSON object");
  JsonKeys keys(json, "");
  const auto type = keys.text("model_type");
  require<ConfigError>(
      type.has_value(),
      "config.json has no model_type; known: gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen3_moe");
  ModelDescription out;
  out.family = family_from_model_type(*type);
  require<ConfigError>(!keys.has("quantization_config"),
                       "config.json: quantization_config: quantised weights are not supported");
  for (const char* key : kIgnored) keys.ignore(key);
  if (const auto old = keys.text("torch_dtype")) out.dtype = old;
  if (const auto now = keys.text("dtype")) out.dtype = now;
  if (out.family == Family::kStoa)
    read_stoa(keys, out.config);
  else if (out.family == Family::kGpt2)
    read_gpt2(keys, out.config);
  else
    read_llama(keys, out.family, out.config);
  if (const auto std = keys.number("initializer_range")) out.config.init_method_std = *std;
  out.special.bos = keys.integer("bos_token_id", -1);
  out.special.pad = keys.integer("pad_token_id", -1);
  if (out.special.pad == -1) out.special.pad.reset();
  out.special.eos = keys.integers("eos_token_id");
  keys.finish(model_type(out.family));
  out.config.encoder_seq_length = out.config.max_positions();
  validate(out.config);
  return out;
}

}  // namespace stoa::model::huggingface
