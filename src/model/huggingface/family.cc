#include "model/huggingface/family.h"

#include <array>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"

namespace stoa::model::huggingface {
namespace {

struct Names {
  Family family;
  std::string_view type, architecture;
};
constexpr std::array<Names, 8> kFamilies{{{Family::kGpt2, "gpt2", "GPT2LMHeadModel"},
                                          {Family::kLlama, "llama", "LlamaForCausalLM"},
                                          {Family::kMistral, "mistral", "MistralForCausalLM"},
                                          {Family::kQwen2, "qwen2", "Qwen2ForCausalLM"},
                                          {Family::kQwen3, "qwen3", "Qwen3ForCausalLM"},
                                          {Family::kMixtral, "mixtral", "MixtralForCausalLM"},
                                          {Family::kQwen3Moe, "qwen3_moe", "Qwen3MoeForCausalLM"},
                                          {Family::kStoa, "stoa_gpt", "StoaGpt"}}};

const Names& names_of(Family family) { return kFamilies[static_cast<std::size_t>(family)]; }

bool gpt2_fits(const ModelConfig& c, std::string& why) {
  if (c.position_embedding_type != PositionEmbedding::kLearnedAbsolute)
    why = "LayerNorm without learned positions";
  else if (is_gated(c.activation))
    why = "LayerNorm with a gated activation";
  else if (c.bias != BiasKind::kAll)
    why = "LayerNorm without biases in every linear layer";
  else if (c.query_groups() != c.num_attention_heads)
    why = "LayerNorm with grouped-query attention";
  else if (c.head_size() * c.num_attention_heads != c.hidden_size)
    why = "LayerNorm with kv_channels of its own";
  else if (c.qk_layernorm)
    why = "LayerNorm with qk_layernorm";
  else if (c.window_size)
    why = "LayerNorm with a sliding window";
  else if (c.moe.num_moe_experts)
    why = "LayerNorm with experts";
  else
    return true;
  return false;
}

}  // namespace

std::string_view model_type(Family family) { return names_of(family).type; }
std::string_view architecture(Family family) { return names_of(family).architecture; }

Family family_from_model_type(std::string_view type) {
  std::vector<std::string> known;
  for (const auto& names : kFamilies) {
    if (names.type == type) return names.family;
    known.emplace_back(names.type);
  }
  fail<ConfigError>(
      "config.json: model_type '{}' is not known{}; known: gpt2, llama, mistral, qwen2, qwen3, mixtral, "
      "qwen3_moe, stoa_gpt",
      type, did_you_mean(type, known));
}

Family choose_family(const ModelConfig& c, std::string* why_not) {
  std::string why;
  const auto own = [&](std::string reason) {
    if (why_not) *why_not = std::move(reason);
    return Family::kStoa;
  };
  if (c.normalization == Normalization::kLayerNorm) return gpt2_fits(c, why) ? Family::kGpt2 : own(why);
  if (c.position_embedding_type != PositionEmbedding::kRope) return own("RMSNorm without rotary positions");
  if (c.rotary_size() != c.head_size()) return own("RMSNorm with rotary_percentage below 1");
  if (!is_gated(c.activation)) return own("RMSNorm with an activation that is not gated");
  if (c.moe.num_moe_experts) {
    const MoeConfig& m = c.moe;
    if (c.bias != BiasKind::kNone) return own("experts with biases");
    if (m.moe_router_score_function != RouterScoreFunction::kSoftmax)
      return own("experts with sigmoid scores");
    if (m.moe_shared_expert_intermediate_size) return own("shared experts");
    if (m.moe_router_num_groups || m.moe_router_topk_scaling_factor.value_or(1) != 1)
      return own("a router with groups or a scaling factor");
    if (c.qk_layernorm) return Family::kQwen3Moe;
    if (m.moe_router_pre_softmax) return own("moe_router_pre_softmax without qk_layernorm");
    for (std::int64_t l = 0; l < c.num_layers; ++l)
      if (!m.has_experts(l)) return own("dense layers among those with experts, without qk_layernorm");
    if (c.window_first_layer.value_or(0) != 0) return own("window_first_layer with experts");
    return Family::kMixtral;
  }
  if (c.qk_layernorm) return c.bias == BiasKind::kNone ? Family::kQwen3 : own("qk_layernorm with biases");
  if (c.bias == BiasKind::kQkv) return Family::kQwen2;
  if (!c.window_size) return Family::kLlama;
  if (c.bias != BiasKind::kNone) return own("a sliding window with biases in every linear layer");
  if (c.window_first_layer.value_or(0) != 0)
    return own("window_first_layer without biases of q, k, v or qk_layernorm");
  return Family::kMistral;
}

}  // namespace stoa::model::huggingface
