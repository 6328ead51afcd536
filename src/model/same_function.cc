#include "model/same_function.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "model/model_spec.h"

namespace stoa::model {
namespace {

constexpr auto kTrainingOnly = std::to_array<std::string_view>({
    "task.classifier_dropout",
    "hidden_dropout",
    "attention_dropout",
    "embedding_dropout",
    "label_smoothing",
    "z_loss_coeff",
    "fp32_residual_connection",
    "init_method_std",
    "use_scaled_init_method",
    "make_vocab_size_divisible_by",
    "seed",
    "freeze",
    "encoder_seq_length",
    "max_position_embeddings",
    "t5.seq_length_dec",
    "activations_checkpoint_granularity",
    "activations_checkpoint_method",
    "activations_checkpoint_num_layers",
    "cpu_offloading",
    "cpu_offloading_num_layers",
    "cpu_offloading_activations",
    "cpu_offloading_weights",
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "virtual_pipeline_model_parallel_size",
    "sequence_parallel",
    "moe_router_bias_update_rate",
    "moe_router_load_balancing_type",
    "moe_aux_loss_coeff",
    "moe_z_loss_coeff",
    "moe_expert_capacity_factor",
    "moe_buffer_factor",
    "moe_token_drop_policy",
    "moe_pad_expert_input_to_capacity",
    "use_mup",
    "mup_base_hidden_size",
    "mup_base_head_dim",
    "mup_output_mult",
});

bool is_training_only(std::string_view path) {
  return path.starts_with("peft.") ||
         std::find(kTrainingOnly.begin(), kTrainingOnly.end(), path) != kTrainingOnly.end();
}

bool may_change_at_start(std::string_view path) {
  return path == "rotary_base" || path.starts_with("rope_scaling.") || path.starts_with("window_");
}

// Dense layers as a list, whichever way they were given; without experts, no word about them.
void spell_out(MoeConfig& m, const ModelConfig& c) {
  if (!m.num_moe_experts) {
    m = {};
    return;
  }
  std::vector<std::int64_t> dense;
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if (!m.has_experts(l)) dense.push_back(l);
  m.moe_dense_layers = std::move(dense);
  m.moe_layer_freq = 1;
  m.moe_ffn_hidden_size = c.moe_ffn_size();
  m.moe_router_topk_scaling_factor = m.moe_router_topk_scaling_factor.value_or(1);
  m.moe_router_num_groups = m.moe_router_num_groups.value_or(1);
  m.moe_router_group_topk = m.moe_router_group_topk.value_or(1);
  if (m.moe_router_group_topk == m.moe_router_num_groups) {  // every group takes part
    m.moe_router_num_groups = m.moe_router_group_topk = 1;
  }
}

// Layers with a window as a list, whichever way they were given; where no layer has one, no word about them.
void spell_out_windows(ModelConfig& c) {
  std::vector<std::int64_t> layers;
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if (layer_window(c, l) > 0) layers.push_back(l);
  c.window_first_layer.reset();
  c.window_attn_skip_freq.reset();
  if (layers.empty()) {
    c.window_size.reset();
    c.rope_local_base_freq.reset();
  }
  c.window_layers = std::move(layers);
}

// Layers of linear attention as a list, whichever way they were given; without any, no word about them.
void spell_out(LinearAttentionConfig& l, std::int64_t layers) {
  std::vector<std::int64_t> linear;
  for (std::int64_t i = 0; i < layers; ++i)
    if (l.is_linear(i)) linear.push_back(i);
  if (linear.empty()) l = {};
  l.linear_attention_freq.reset();
  l.linear_attention_layers = std::move(linear);
}

// Values that follow from others written out, so that a default and the same value given are equal.
ModelConfig spelled_out(ModelConfig c) {
  c.ffn_hidden_size = c.ffn_size();
  c.num_query_groups = c.query_groups();
  c.kv_channels = c.head_size();
  if (!c.query_pre_attn_scalar && c.softmax_scale == 1 / std::sqrt(static_cast<double>(c.head_size())))
    c.softmax_scale.reset();
  spell_out_windows(c);
  c.qkv_bias = c.has_qkv_bias();
  c.attention_output_bias = c.has_attention_output_bias();
  c.mlp_bias = c.has_mlp_bias();
  c.bias = BiasKind::kNone;
  std::sort(c.no_rope_layers.begin(), c.no_rope_layers.end());
  if (!c.latent.multi_latent_attention) c.latent = {};
  spell_out(c.linear, c.num_layers);
  const bool bare_decoder = c.kind == ModelKind::kGpt && c.task.embeds();
  if (c.task.labelled() && !bare_decoder) c.bert.lm_head = c.bert.binary_head = false;
  if (c.task.embeds()) c.task = {};  // a bare model, as it is read
  if (c.kind == ModelKind::kBert && c.bert.lm_head)
    c.bert.head_activation = c.masked_head_activation();
  else
    c.bert.head_activation.reset();
  if (c.kind == ModelKind::kT5)
    c.t5.encoder_layers = c.encoder_layers();
  else
    c.t5 = {};
  spell_out(c.moe, c);
  if (c.moe.num_moe_experts && c.moe.moe_dense_layers.empty()) c.ffn_hidden_size = c.moe_ffn_size();
  RopeScalingConfig& s = c.rope_scaling;
  if (s.type == RopeScaling::kDefault) s = {};
  if (s.type == RopeScaling::kDefault && c.rope_local_base_freq == c.rotary_base)
    c.rope_local_base_freq.reset();
  if (s.type == RopeScaling::kLlama3 || s.type == RopeScaling::kYarn || s.type == RopeScaling::kLongrope)
    s.original_max_position_embeddings = s.original_max_position_embeddings.value_or(c.max_positions());
  if (c.position_embedding_type != PositionEmbedding::kRope) {
    const ModelConfig defaults;
    c.rotary_percentage = defaults.rotary_percentage;
    c.rotary_base = defaults.rotary_base;
    c.rope_scaling = defaults.rope_scaling;
  }
  return c;
}

}  // namespace

std::vector<config::Difference> function_differences(const ModelConfig& found, const ModelConfig& expected,
                                                     Purpose purpose) {
  config::Section<ModelConfig> section;
  declare(section);
  const ModelConfig a = spelled_out(found), b = spelled_out(expected);
  auto all = config::differences(section.schema(), &a, &b);
  std::erase_if(all, [&](const config::Difference& d) {
    return is_training_only(d.path) || (purpose == Purpose::kStart && may_change_at_start(d.path));
  });
  return all;
}

}  // namespace stoa::model
