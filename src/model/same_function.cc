#include "model/same_function.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace stoa::model {
namespace {

constexpr std::array<std::string_view, 21> kTrainingOnly{
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
    "encoder_seq_length",
    "max_position_embeddings",
    "activations_checkpoint_granularity",
    "activations_checkpoint_method",
    "activations_checkpoint_num_layers",
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "virtual_pipeline_model_parallel_size",
    "sequence_parallel",
};

bool is_training_only(std::string_view path) {
  return std::find(kTrainingOnly.begin(), kTrainingOnly.end(), path) != kTrainingOnly.end();
}

bool may_change_at_start(std::string_view path) {
  return path == "rotary_base" || path.starts_with("rope_scaling.") || path.starts_with("window_");
}

// Values that follow from others written out, so that a default and the same value given are equal.
ModelConfig spelled_out(ModelConfig c) {
  c.ffn_hidden_size = c.ffn_size();
  c.num_query_groups = c.query_groups();
  c.kv_channels = c.head_size();
  if (c.window_size)
    c.window_first_layer = c.window_first_layer.value_or(0);
  else
    c.window_first_layer.reset();
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
