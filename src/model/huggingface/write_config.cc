#include <nlohmann/json.hpp>

#include "model/huggingface/config_json.h"
#include "model/huggingface/stoa_config.h"

namespace stoa::model::huggingface {
namespace {

using Json = nlohmann::ordered_json;

const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    case DType::kF32:
      return "float32";
    case DType::kF64:
      return "float64";
    default:
      fail<InternalError>("weights are not written as {}", name_of(dtype));
  }
}

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
    case Activation::kGeglu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_new";
    case Activation::kQuickGelu:
      return "quick_gelu";
    case Activation::kSilu:
    case Activation::kSwiglu:
      return "silu";
    case Activation::kRelu:
    case Activation::kReglu:
      return "relu";
    case Activation::kSquaredRelu:
      return "relu2";
  }
  fail<InternalError>("unknown activation");
}

void write_gpt2(const Gpt& gpt, Json& json) {
  const ModelConfig& c = gpt.config;
  json["vocab_size"] = gpt.vocabulary;
  json["n_positions"] = c.max_positions();
  json["n_embd"] = c.hidden_size;
  json["n_layer"] = c.num_layers;
  json["n_head"] = c.num_attention_heads;
  json["n_inner"] = c.ffn_size() == 4 * c.hidden_size ? Json() : Json(c.ffn_size());
  json["activation_function"] = activation_name(c.activation);
  json["layer_norm_epsilon"] = c.layernorm_epsilon;
  json["resid_pdrop"] = c.hidden_dropout;
  json["embd_pdrop"] = c.embedding_dropout;
  json["attn_pdrop"] = c.attention_dropout;
  json["scale_attn_weights"] = true;
  json["scale_attn_by_inverse_layer_idx"] = false;
  json["reorder_and_upcast_attn"] = false;
}

// rope_theta and rope_scaling for 4.x, rope_parameters for 5.x.
void write_rope(const ModelConfig& c, Json& json) {
  const RopeScalingConfig& s = c.rope_scaling;
  Json rope;
  const auto set = [&](const char* key, const auto& optional) {
    if (optional) rope[key] = *optional;
  };
  static constexpr const char* kTypes[] = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"};
  rope["rope_type"] = kTypes[static_cast<int>(s.type)];
  if (s.type != RopeScaling::kDefault) {
    set("factor", s.factor);
    set("original_max_position_embeddings", s.original_max_position_embeddings);
    set("attention_factor", s.attention_factor);
  }
  if (s.type == RopeScaling::kLlama3) {
    rope["low_freq_factor"] = s.low_freq_factor;
    rope["high_freq_factor"] = s.high_freq_factor;
    if (!s.original_max_position_embeddings) rope["original_max_position_embeddings"] = c.max_positions();
  }
  if (s.type == RopeScaling::kYarn) {
    rope["beta_fast"] = s.beta_fast;
    rope["beta_slow"] = s.beta_slow;
    set("mscale", s.mscale);
    set("mscale_all_dim", s.mscale_all_dim);
    if (!s.truncate) rope["truncate"] = false;
  }
  if (s.type == RopeScaling::kLongrope) {
    rope["short_factor"] = s.short_factor;
    rope["long_factor"] = s.long_factor;
  }
  json["rope_theta"] = c.rotary_base;
  json["rope_scaling"] = s.type == RopeScaling::kDefault ? Json() : rope;
  rope["rope_theta"] = c.rotary_base;
  json["rope_parameters"] = rope;
  if (s.type == RopeScaling::kLongrope && s.original_max_position_embeddings)
    json["original_max_position_embeddings"] = *s.original_max_position_embeddings;
}

void write_experts(const ModelConfig& c, Family family, Json& json) {
  const MoeConfig& m = c.moe;
  json["num_local_experts"] = *m.num_moe_experts;
  if (family == Family::kQwen3Moe) json["num_experts"] = *m.num_moe_experts;  // 4.x reads this one
  json["num_experts_per_tok"] = m.moe_router_topk;
  json["output_router_logits"] = m.moe_aux_loss_coeff > 0;
  json["router_aux_loss_coef"] = m.moe_aux_loss_coeff;
  if (family == Family::kMixtral) {
    json["intermediate_size"] = c.moe_ffn_size();
    json["router_jitter_noise"] = 0.0;
    return;
  }
  json["moe_intermediate_size"] = c.moe_ffn_size();
  json["norm_topk_prob"] = !m.moe_router_pre_softmax;
  json["decoder_sparse_step"] = 1;
  Json dense = Json::array();
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if (!m.has_experts(l)) dense.push_back(l);
  json["mlp_only_layers"] = dense;
}

void write_llama(const Gpt& gpt, Family family, Json& json) {
  const ModelConfig& c = gpt.config;
  json["vocab_size"] = gpt.vocabulary;
  json["hidden_size"] = c.hidden_size;
  json["intermediate_size"] = c.ffn_size();
  json["num_hidden_layers"] = c.num_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["num_key_value_heads"] = c.query_groups();
  json["head_dim"] = c.head_size();
  json["max_position_embeddings"] = c.max_positions();
  json["hidden_act"] = activation_name(c.activation);
  json["rms_norm_eps"] = c.layernorm_epsilon;
  json["attention_dropout"] = c.attention_dropout;
  if (family == Family::kLlama) json["mlp_bias"] = c.bias == BiasKind::kAll;
  const bool qwen3 = family == Family::kQwen3 || family == Family::kQwen3Moe;
  if (family == Family::kLlama || qwen3) json["attention_bias"] = c.bias == BiasKind::kAll;
  if (family == Family::kMistral || family == Family::kMixtral)
    json["sliding_window"] = c.window_size ? Json(*c.window_size) : Json();
  if (family == Family::kQwen2 || qwen3) {
    json["use_sliding_window"] = c.window_size.has_value();
    json["sliding_window"] = c.window_size ? Json(*c.window_size) : Json();
    json["max_window_layers"] = c.window_size ? c.window_first_layer.value_or(0) : c.num_layers;
    Json types = Json::array();
    for (std::int64_t l = 0; l < c.num_layers; ++l)
      types.push_back(layer_window(c, l) > 0 ? "sliding_attention" : "full_attention");
    json["layer_types"] = types;
  }
  if (c.moe.num_moe_experts) write_experts(c, family, json);
  write_rope(c, json);
}

}  // namespace

std::string write_config(const Gpt& gpt, Family family, DType dtype, const SpecialTokens& special) {
  Json json;
  json["architectures"] = {std::string(architecture(family))};
  json["model_type"] = std::string(model_type(family));
  if (family == Family::kGpt2)
    write_gpt2(gpt, json);
  else if (family == Family::kStoa)
    write_stoa(gpt, json);
  else
    write_llama(gpt, family, json);
  json["tie_word_embeddings"] = gpt.config.share_embeddings_and_output_weights;
  json["initializer_range"] = gpt.config.init_method_std;
  json["bos_token_id"] = special.bos ? Json(*special.bos) : Json();
  json["eos_token_id"] = special.eos.empty()       ? Json()
                         : special.eos.size() == 1 ? Json(special.eos[0])
                                                   : Json(special.eos);
  json["pad_token_id"] = special.pad ? Json(*special.pad) : Json();
  json["torch_dtype"] = torch_name(dtype);
  json["dtype"] = torch_name(dtype);
  json["use_cache"] = true;
  return json.dump(2) + "\n";
}

}  // namespace stoa::model::huggingface
